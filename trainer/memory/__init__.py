"""The memory that a training needs of its devices, before it begins."""
