"""What is known about the words of events."""

VAGUE_MESSAGES = ("Error: ErrImagePull", "Error: ImagePullBackOff")
"""So begins what a kubelet adds to the event that says why it cannot pull an image."""
