"""What people write on a run: names, tags that may change, properties that may not."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Union

from .recorder import SubmittedRecorder
from .tracking import Tracking
from .values import texts


class Labels(Tracking):
    """Names, tags and properties. Tags set inside a submitted run travel with its metrics."""

    _tagged: Dict[str, str]

    @property
    def name(self) -> str:
        return self.display_name

    @property
    def display_name(self) -> str:
        return str(self._refresh().get("display_name") or self.id)

    @display_name.setter
    def display_name(self, value: str) -> None:
        self._change(display_name=str(value))

    @property
    def description(self) -> str:
        return str(self._refresh().get("description") or "")

    @description.setter
    def description(self, value: str) -> None:
        self._change(description=str(value))

    @property
    def tags(self) -> Dict[str, str]:
        return self.get_tags()

    @property
    def properties(self) -> Dict[str, str]:
        return self.get_properties()

    def tag(self, key: str, value: Optional[str] = None) -> None:
        """Set a tag; tags may be changed at any time.

        >>> run.tag("quality", "good")
        """
        self.set_tags({key: value})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Set several tags."""
        named = texts("tags", tags)
        if isinstance(self._recorder, SubmittedRecorder):
            self._tagged.update(named)
            for key, text in named.items():
                self._recorder.spool.append("tag", key, text, None, self._below(self._recorder))
        else:
            self._change(tags=named)

    def get_tags(self) -> Dict[str, str]:
        return {**(self._refresh().get("tags") or {}), **self._tagged}

    def remove_tags(self, tags: Union[str, Sequence[str]]) -> None:
        """Remove a tag, or several."""
        names = [tags] if isinstance(tags, str) else [str(tag) for tag in tags]
        if self._tagged:
            self._flush_own(60.0)  # a removal must not overtake what was set before
        for name in names:
            self._tagged.pop(name, None)
        self._change(remove_tags=names)

    def add_properties(self, properties: Mapping[str, Any]) -> None:
        """Set properties; once set, a property keeps its value and another one is refused."""
        self._change(properties=texts("properties", properties))

    def get_properties(self) -> Dict[str, str]:
        return dict(self._refresh().get("properties") or {})
