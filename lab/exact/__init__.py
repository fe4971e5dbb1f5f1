"""Measurements that need no training: exact properties, and claims of tutorials."""
