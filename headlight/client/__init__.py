"""The blocking client and the asyncio client."""
