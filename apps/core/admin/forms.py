"""The form of an admin page: it checks as the API does, and leaves all writing to the action."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from django import forms

from apps.core.changes import compare_with_what_was_shown
from apps.core.errors import ApiError
from apps.core.serializers import RequestSerializer

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Any]
else:
    ModelForm = forms.ModelForm


class ActionForm(ModelForm):
    """`request_serializer` is that of the API which asks for the same; its rules are the form's.

    `wanted` is what the action is given: on a change, what was changed on the page, and what has to
    be sent beside it, as it is stored. The row itself is left alone, so that the action compares
    with what is stored.
    """

    request_serializer: type[RequestSerializer] | None = None
    refusal: ApiError | None = None
    """What the action answered to these very values, to be shown with them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.label_suffix = ""
        self.wanted: dict[str, Any] = {}
        if self.instance.pk is not None:
            compare_with_what_was_shown(self)

    def full_clean(self) -> None:
        """As Django's, which writes the values into the row and asks the model's rules: it gets a
        copy of the row, whose rules are switched off.
        """
        row, without_rules = self.instance, copy(self.instance)
        without_rules.full_clean = lambda **_: None
        self.instance = without_rules
        try:
            super().full_clean()
        finally:
            self.instance = row

    def clean(self) -> dict[str, Any]:
        """Ask the request serializer; a refusal of the action is shown at the field it names."""
        known, sent = self.cleaned_data, self._sent()
        if self.request_serializer is None:
            self.wanted = sent
        elif not self.errors:
            self._ask(self.request_serializer(data=sent))
        if self.refusal is not None:
            name, colon, text = self.refusal.detail.partition(": ")
            field = name if colon and name in self.fields else None
            self.add_error(field, text if field else self.refusal.detail)
        return known

    def _sent(self) -> dict[str, Any]:
        known = self.cleaned_data
        if self.instance.pk is None:
            return dict(known)
        declared = self.request_serializer().fields if self.request_serializer else {}
        needed = {name for name in known if getattr(declared.get(name), "required", False)}
        stored = {name: self.initial[name] for name in needed}
        return stored | {name: known[name] for name in known if name in self.changed_data}

    def _ask(self, incoming: RequestSerializer) -> None:
        if incoming.is_valid():
            self.wanted = dict(incoming.validated_data)
            return
        for name, reasons in incoming.errors.items():
            self.add_error(name if name in self.fields else None, [str(one) for one in reasons])
