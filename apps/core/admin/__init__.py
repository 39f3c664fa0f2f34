"""What the lists and pages of the admin have in common. It knows no model."""

from apps.core.admin.forms import ActionForm
from apps.core.admin.lists import Choices, Flag
from apps.core.admin.pages import RowAction, StaffAdmin
from apps.core.admin.words import NONE, badge, bulleted, link_to, moment, row_link

__all__ = [
    "NONE",
    "ActionForm",
    "Choices",
    "Flag",
    "RowAction",
    "StaffAdmin",
    "badge",
    "bulleted",
    "link_to",
    "moment",
    "row_link",
]
