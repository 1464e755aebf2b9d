"""The asyncio side. tools/unasync.py makes the sync side of it."""
