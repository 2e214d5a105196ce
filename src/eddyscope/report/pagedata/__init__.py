"""What the report says, as data classes: words, numbers and small maps, nothing of HTML."""

from __future__ import annotations

from eddyscope.report.pagedata.page import PageData, StudyData, page_data

__all__ = ["PageData", "StudyData", "page_data"]
