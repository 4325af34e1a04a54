"""Files in and out: sound, portraits, video, picture folders. Everything here is synchronous.

Reading raises `MediaError`, writing raises `SinkError`; both name the file, the true cause and a remedy.
"""
