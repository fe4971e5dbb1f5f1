"""Models by name: the shipped one, a bundle, a folder or a Hub id, and the cache of exports."""
