"""Folders of Hugging Face and sentence-transformers, read without their libraries."""
