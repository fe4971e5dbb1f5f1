"""Folders as Hugging Face and sentence-transformers write them, read without their libraries."""
