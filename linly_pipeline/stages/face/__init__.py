"""Faces: a portrait photo that speaks."""
