"""The sync side. tools/unasync.py makes it of the asyncio side, except for _io.py."""
