"""What a project is: its name and its kinds, as they are recorded in `.ctrlruntime/project.json`."""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import msgspec

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import plural_of

__all__ = ["API", "Project", "ProjectError", "Version", "check_name", "parse_version"]

FORMAT: Final = 1
LONGEST_NAME: Final = 40
"""Of a project: its name is part of others, such as its namespace, which have 63 characters."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_GROUP: Final = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
TAKEN: Final = frozenset(
    ["Annotated", "ApiModel", "Conditions", "Field", "Int32", "Resource", "Review", "Self"]
)
"""What the module of a kind imports."""
_OWN: Final = frozenset({"config", "tests"})
"""Folders of a project beside its package."""


class ProjectError(click.ClickException):
    """A command that cannot be carried out; nothing was written."""


class Version(msgspec.Struct, frozen=True):
    """A kind in one version, as a command names it: ``example.com/v1 Website``."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version} {self.kind}"


def _changed(base: bool, one: bool, other: bool) -> bool:
    """Return what a three-way merge makes of it: the value of the side that changed it."""
    return one and other if base else one or other


class API(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of the project. ``version`` is the hub, which is stored; ``spokes`` are converted from and to it."""

    group: str
    version: str
    kind: str
    module: str
    finalizer: bool = False
    defaulting: bool = False
    validating: bool = False
    spokes: tuple[str, ...] = ()

    @property
    def webhooks(self) -> bool:
        return self.defaulting or self.validating

    @property
    def slug(self) -> str:
        """Its module as a part of names in Kubernetes."""
        return self.module.strip("_").replace("_", "-")

    @property
    def versions(self) -> list[str]:
        return [self.version, *self.spokes]

    def bare(self) -> API:
        """Return the kind as it is created, without what is added to it later."""
        return API(self.group, self.version, self.kind, self.module)

    def united(self, other: API, base: API) -> API:
        """Return the kind with what either side changed of their base. Raises ProjectError where another version is stored."""
        if (self.version, self.module) != (other.version, other.module):
            raise ProjectError(f"its two sides have {self.kind} in different versions or modules")
        spokes = dict.fromkeys((*base.spokes, *other.spokes, *self.spokes))
        return msgspec.structs.replace(
            other,
            finalizer=_changed(base.finalizer, self.finalizer, other.finalizer),
            defaulting=_changed(base.defaulting, self.defaulting, other.defaulting),
            validating=_changed(base.validating, self.validating, other.validating),
            spokes=tuple(
                each
                for each in spokes
                if _changed(each in base.spokes, each in self.spokes, each in other.spokes)
            ),
        )


class Project(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project: what its files are rendered from."""

    name: str
    scaffold: str
    """The version of ctrlruntime that rendered it last."""
    apis: tuple[API, ...] = ()
    format: int = FORMAT

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def webhooks(self) -> bool:
        """Whether the API server calls it."""
        return any(api.webhooks or api.spokes for api in self.apis)

    def find(self, wanted: Version) -> API | None:
        """Return the kind that has this version, or None."""
        api = self.kind(wanted)
        if api is None or wanted.version not in api.versions:
            return None
        return api

    def kind(self, wanted: Version) -> API | None:
        """Return the kind of this group and name, whatever its versions, or None."""
        for api in self.apis:
            if (api.group, api.kind) == (wanted.group, wanted.kind):
                return api
        return None

    def with_api(self, wanted: Version, *, finalizer: bool = False) -> Project:
        """Return the project with one more kind. Raises ProjectError for one that it has."""
        self._check_new(wanted)
        api = API(
            wanted.group, wanted.version, wanted.kind, self._module(wanted), finalizer=finalizer
        )
        return msgspec.structs.replace(self, apis=(*self.apis, api))

    def with_webhook(self, wanted: Version, *, defaulting: bool, validating: bool) -> Project:
        """Return the project with webhooks of a kind. Raises ProjectError where there is nothing to add."""
        api = self._existing(wanted)
        if wanted.version != api.version:
            raise ProjectError(
                f"{api.kind} has its webhooks in {api.version}, the stored version; the API server converts {wanted.version} "
                f"for them: ctrlruntime create webhook {api.group}/{api.version} {api.kind}"
            )
        added = (defaulting and not api.defaulting) or (validating and not api.validating)
        if not added:
            raise ProjectError(
                f"{wanted} has these webhooks: they are methods of {self._place(api)}"
            )
        new = msgspec.structs.replace(
            api,
            defaulting=api.defaulting or defaulting,
            validating=api.validating or validating,
        )
        return self._replaced(api, new)

    def with_conversion(self, wanted: Version) -> Project:
        """Return the project with one more version of a kind. Raises ProjectError where it has that, or no such kind."""
        api = self.kind(wanted)
        if api is None:
            raise ProjectError(
                f"no kind {wanted.kind} of {wanted.group} to convert; {self._known()}"
            )
        if wanted.version in api.versions:
            free = next(v for v in map("v{}".format, itertools.count(2)) if v not in api.versions)
            raise ProjectError(f"{wanted} exists already; add another version, such as {free}")
        return self._replaced(
            api, msgspec.structs.replace(api, spokes=(*api.spokes, wanted.version))
        )

    def united(self, other: Project, base: Project) -> Project:
        """Return the project with what either side changed of their base. Raises ProjectError where they do not go together."""
        mine, theirs, former = ({(a.group, a.kind): a for a in p.apis} for p in (self, other, base))
        apis = []
        for key in dict.fromkeys((*mine, *theirs)):
            if _changed(key in former, key in mine, key in theirs):
                one = mine.get(key) or theirs[key]
                two = theirs.get(key, one)
                apis.append(two.united(one, former.get(key) or two.bare()))
        found = msgspec.structs.replace(self, apis=tuple(apis))
        modules = {api.module for api in found.apis}
        if len(modules) < len(apis) or (self.name, self.scaffold) != (other.name, other.scaffold):
            raise ProjectError("its two sides do not go together")
        return found

    def _replaced(self, old: API, new: API) -> Project:
        return msgspec.structs.replace(
            self, apis=tuple(new if api is old else api for api in self.apis)
        )

    def _existing(self, wanted: Version) -> API:
        api = self.find(wanted)
        if api is None:
            raise ProjectError(f"no kind {wanted}; {self._known()}")
        return api

    def _known(self) -> str:
        if not self.apis:
            return "make it first: ctrlruntime create api GROUP/VERSION KIND"
        return "the project has " + ", ".join(
            f"{api.group}/{version} {api.kind}" for api in self.apis for version in api.versions
        )

    def _place(self, api: API) -> str:
        return f"{self.package}/api/{api.module}/{api.version}.py"

    def _check_new(self, wanted: Version) -> None:
        same = self.kind(wanted)
        if same is not None and wanted.version in same.versions:
            raise ProjectError(f"{wanted} exists already, in {self._place(same)}")
        if same is not None:
            raise ProjectError(
                f"{same.group} {same.kind} exists in {same.version}; a second version is converted from and to it: "
                f"ctrlruntime add conversion {wanted}"
            )
        for api in self.apis:
            if api.group == wanted.group and _crd_names(api.kind) & _crd_names(wanted.kind):
                raise ProjectError(
                    f"{wanted.kind} and {api.kind}, which exists already, would have the same names in {api.group}"
                )

    def _module(self, wanted: Version) -> str:
        """Return the name of the kind's modules: the group is part of it where another group has the kind."""
        taken = {api.module for api in self.apis}
        name = snake(wanted.kind)
        if keyword.iskeyword(name) or hasattr(builtins, name):
            name += "_"
        if name in taken:
            name = re.sub(r"[.-]", "_", wanted.group) + f"_{snake(wanted.kind)}"
        return name if name not in taken and name[0].isalpha() else f"api_{len(taken)}_{name}"


def snake(kind: str) -> str:
    """Return a kind as a name of Python: ``HTTPRoute`` is ``http_route``."""
    return _WORD.sub("_", kind).lower()


def _crd_names(kind: str) -> set[str]:
    """Return the names that a kind takes in its group: its singular, its plural and that of its list."""
    singular = kind.lower()
    return {singular, plural_of(singular), f"{singular}list"}


def parse_version(api_version: str, kind: str) -> Version:
    """Return what GROUP/VERSION and KIND name. Raises ProjectError for what the API server or Python would refuse."""
    group, slash, version = api_version.partition("/")
    core = not slash or group in {"", "core"}
    if GroupVersionKind("" if core else group, version or group, kind) in BUILTIN:
        module = f"{'core' if core else group.partition('.')[0]}.{version or group}"
        raise ProjectError(
            f"{kind} is a kind of Kubernetes, and a controller is all that it needs: "
            f"from ctrlruntime.kinds.{module} import {kind}, and Builder(manager).for_({kind})"
        )
    if not slash or not _GROUP.fullmatch(group) or len(group) > 200:
        raise ProjectError(
            f"{api_version!r}: write the group, a domain in lower case with a dot, and the version: example.com/v1"
        )
    if any(len(label) > 63 for label in group.split(".")):
        raise ProjectError(f"{group!r}: a part of a domain has at most 63 characters")
    if _PROTECTED.fullmatch(group):
        raise ProjectError(f"{group} belongs to Kubernetes; take a domain of your own: example.com")
    if not _VERSION.fullmatch(version):
        raise ProjectError(f"{version!r} is no version: write v1, v1beta1 or v1alpha1")
    if not _KIND.fullmatch(kind):
        raise ProjectError(
            f"{kind!r} is no kind: write letters and digits and begin with a capital, such as Website"
        )
    if len(kind) > LONGEST_NAME:
        raise ProjectError(f"{kind}: a kind has at most {LONGEST_NAME} characters here")
    if keyword.iskeyword(kind) or kind in TAKEN:
        raise ProjectError(
            f"{kind} is a name that the kind's own module has already: choose another kind"
        )
    return Version(group, version, kind)


def check_name(name: str) -> None:
    """Raise ProjectError for a name that cannot be one of a project, its namespace and its package."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:LONGEST_NAME]
        better = better.strip("-") or "shop"
        raise ProjectError(
            f"{name!r} is no name of a project: at most {LONGEST_NAME} lower-case letters, digits and dashes. "
            f"Name it: ctrlruntime init {better}"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise ProjectError(
            f"{name} is reserved in Python: name it otherwise, such as {name}-operator"
        )
    if package in _OWN:
        raise ProjectError(f"{name} is another folder of a project: name it {name}-operator")
    if hides(package):
        raise ProjectError(
            f"a package {package} is installed already, and the project would hide it: name it {name}-operator"
        )


def hides(package: str) -> bool:
    """Return whether a module of this name can be imported here, from elsewhere than the working folder."""
    try:
        found = find_spec(package)
    except (ImportError, ValueError):
        return True
    if found is None or found.origin is None:
        return False
    return Path.cwd() not in Path(found.origin).parents[:2]
