"""Audio to motion: what the face does while a sentence is heard."""
