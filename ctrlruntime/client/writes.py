"""Writes: create, update, patches, server-side apply, delete."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast, overload

import orjson

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import KindRef, Resource, UntypedKindRef
from ctrlruntime.client.call import FieldValidation, Propagation, Verb
from ctrlruntime.client.calling import Caller, as_json, decode, reading_of, version_of
from ctrlruntime.client.patches import PatchType, manifest_of
from ctrlruntime.client.reads import selector_params
from ctrlruntime.client.selectors import FieldSelector, LabelSelector
from ctrlruntime.client.transport import JSON
from ctrlruntime.intake.json_documents import value_depth
from ctrlruntime.intake.limits import OBJECT_DEPTH, LimitExceeded

R = TypeVar("R", bound=Resource[Any, Any])
Obj = TypeVar("Obj", bound=Resource[Any, Any] | Manifest)
PatchBody: TypeAlias = bytes | Mapping[str, Any] | Sequence[Any]


_APPLY: Final = PatchType.APPLY.value  # the value of a member is computed at each access


class Writer(Caller):
    """Every write is one request; nothing is written when it would change nothing is the caller's part."""

    async def create(
        self,
        obj: Obj,
        *,
        kind: KindRef | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        """Return the object as the server made it. ``generateName`` works as it does there."""
        manifest = manifest_of(obj)
        params = self._write_params(dry_run, field_manager, field_validation)
        return await self._write("create", obj, kind, _encoded(manifest), params, manifest=manifest)

    async def update(
        self,
        obj: Obj,
        *,
        kind: KindRef | None = None,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        """Replace the object; Conflict if its resourceVersion is no longer the server's."""
        manifest = manifest_of(obj)
        params = self._write_params(dry_run, field_manager, field_validation)
        return await self._write(
            "update",
            obj,
            kind,
            _encoded(manifest),
            params,
            manifest=manifest,
            subresource=subresource,
        )

    async def update_status(
        self,
        obj: Obj,
        *,
        kind: KindRef | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        """Replace the status; nothing else of the object is changed."""
        return await self.update(
            obj,
            kind=kind,
            subresource="status",
            dry_run=dry_run,
            field_manager=field_manager,
            field_validation=field_validation,
        )

    @overload
    async def patch(
        self,
        kind: type[R],
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = ...,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        metadata_only: bool = False,
    ) -> R: ...
    @overload
    async def patch(
        self,
        kind: UntypedKindRef,
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = ...,
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        metadata_only: bool = False,
        version_only: bool = False,
    ) -> Manifest: ...
    async def patch(
        self,
        kind: KindRef,
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the word everybody uses
        subresource: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
        force: bool = False,
        metadata_only: bool = False,
        version_only: bool = False,
    ) -> Any:
        """Return the object as patched. A JSON patch is a list of operations, the others are objects.

        With ``metadata_only`` the answer is a manifest of apiVersion, kind and metadata; with ``version_only`` no more of it
        is read than ``metadata.uid`` and ``metadata.resourceVersion``, and a manifest of these returned (no typed kind
        can be asked for so). Custom
        kinds take no strategic merge patch (UnsupportedMediaType).
        """
        params = self._write_params(dry_run, field_manager, field_validation)
        if force:
            params["force"] = "true"
        call = await self._call(
            "patch",
            kind,
            name,
            namespace=namespace,
            subresource=subresource,
            params=params,
            body=patch if isinstance(patch, bytes) else _encoded(patch, f"the patch of {name}"),
            content_type=type.value,
            metadata_only=metadata_only,
        )
        response = await self._execute(call)
        with reading_of(call):
            if version_only:
                return version_of(response.body)
            return decode(response.body, kind, call.mapping, metadata_only)

    @overload
    async def patch_status(
        self,
        kind: type[R],
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = ...,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> R: ...
    @overload
    async def patch_status(
        self,
        kind: UntypedKindRef,
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = ...,
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Manifest: ...
    async def patch_status(
        self,
        kind: KindRef,
        name: str,
        patch: PatchBody,
        *,
        namespace: str | None = None,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - as in `patch`
        dry_run: bool | None = None,
        field_manager: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Any:
        """Like `patch`, on the status subresource."""
        return await self.patch(
            cast("GroupVersionKind", kind),
            name,
            patch,
            namespace=namespace,
            type=type,
            subresource="status",
            dry_run=dry_run,
            field_manager=field_manager,
            field_validation=field_validation,
        )

    async def apply(
        self,
        obj: Obj,
        *,
        kind: KindRef | None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool | None = None,
        metadata_only: bool = False,
        version_only: bool = False,
    ) -> Obj:
        """Server-side apply. Conflict (``is_field_conflict``) names other managers' fields unless ``force``.

        ValueError without a field manager, in the call or as the client's default. With
        ``metadata_only``, a manifest gets a manifest of apiVersion, kind and metadata, with ``version_only``
        one of ``metadata.uid`` and ``metadata.resourceVersion``; a typed object cannot be asked for so.
        """
        if not (field_manager or self.defaults.field_manager):
            raise ValueError("an apply needs a field_manager, here or by client.field_owner(name)")
        if (metadata_only or version_only) and not isinstance(obj, dict):
            raise ValueError(
                "metadata_only, version_only: apply the manifest (obj.to_manifest()) instead"
            )
        manifest = manifest_of(obj)
        if "managedFields" in manifest.get("metadata", {}):
            metadata = {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}
            manifest = {**manifest, "metadata": metadata}
        params = self._write_params(dry_run, field_manager, None)
        if force:
            params["force"] = "true"
        return await self._write(
            "apply",
            obj,
            kind,
            _encoded(manifest),
            params,
            manifest=manifest,
            subresource=subresource,
            content_type=_APPLY,
            metadata_only=metadata_only,
            version_only=version_only,
        )

    async def delete(
        self,
        kind: KindRef,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool | None = None,
    ) -> None:
        """Conflict if the object has another ``uid`` or ``resource_version`` than named."""
        params = self._dry_run_params(dry_run)
        body = _delete_options(
            uid, resource_version, propagation, grace_period, dry_run=bool(params)
        )
        call = await self._call(
            "delete",
            kind,
            name,
            namespace=namespace,
            params=params,
            body=body,
        )
        await self._execute(call)

    async def delete_collection(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool | None = None,
    ) -> None:
        """Delete every object that is selected, in one namespace."""
        dry = self._dry_run_params(dry_run)
        params = selector_params(labels, fields) | dry
        call = await self._call(
            "deletecollection",
            kind,
            None,
            namespace=namespace,
            params=params,
            body=_delete_options(None, None, propagation, grace_period, dry_run=bool(dry)),
        )
        await self._execute(call)

    async def create_subresource(
        self,
        kind: KindRef,
        name: str,
        subresource: str,
        body: Manifest,
        *,
        namespace: str | None = None,
        dry_run: bool | None = None,
    ) -> Manifest:
        """Post to a subresource: ``eviction``, ``token``, ``binding``. Returns the answer."""
        call = await self._call(
            "create",
            kind,
            name,
            namespace=namespace,
            subresource=subresource,
            params=self._dry_run_params(dry_run),
            body=_encoded(body, f"the {subresource} of {name}"),
        )
        return as_json((await self._execute(call)).body)

    async def patch_scale(
        self,
        kind: KindRef,
        name: str,
        replicas: int,
        *,
        namespace: str | None = None,
        dry_run: bool | None = None,
        field_manager: str | None = None,
    ) -> Manifest:
        """Set the number of replicas and return the Scale."""
        call = await self._call(
            "patch",
            kind,
            name,
            namespace=namespace,
            subresource="scale",
            params=self._write_params(dry_run, field_manager, None),
            body=orjson.dumps({"spec": {"replicas": replicas}}),
            content_type=PatchType.MERGE.value,
        )
        return as_json((await self._execute(call)).body)

    async def _write(
        self,
        verb: Verb,
        obj: Obj,
        kind: KindRef | None,
        body: bytes,
        params: dict[str, str],
        *,
        manifest: Manifest,
        subresource: str | None = None,
        content_type: str = JSON,
        metadata_only: bool = False,
        version_only: bool = False,
    ) -> Obj:
        metadata = manifest.get("metadata") or {}
        ref: KindRef = kind or (
            type(obj) if isinstance(obj, Resource) else GroupVersionKind.of(manifest)
        )
        name = metadata.get("name")
        if name is None and verb != "create":
            raise ValueError(f"{verb} needs metadata.name")
        call = await self._call(
            verb,
            ref,
            name,
            namespace=metadata.get("namespace"),
            subresource=subresource,
            params=params,
            body=body,
            content_type=content_type,
            metadata_only=metadata_only,
        )
        answer = (await self._execute(call)).body
        with reading_of(call):
            if version_only:
                return cast("Obj", version_of(answer))
            if isinstance(obj, dict):
                return cast("Obj", decode(answer, call.mapping, call.mapping, metadata_only))
            return cast("Obj", type(obj).from_manifest(answer))

    def _dry_run_params(self, dry_run: bool | None) -> dict[str, str]:
        wanted = self.defaults.dry_run if dry_run is None else dry_run
        return {"dryRun": "All"} if wanted else {}

    def _write_params(
        self,
        dry_run: bool | None,
        field_manager: str | None,
        field_validation: FieldValidation | None,
    ) -> dict[str, str]:
        params = self._dry_run_params(dry_run)
        if manager := field_manager or self.defaults.field_manager:
            params["fieldManager"] = manager
        if validation := field_validation or self.defaults.field_validation:
            params["fieldValidation"] = validation
        return params


def _delete_options(
    uid: str | None,
    resource_version: str | None,
    propagation: Propagation | None,
    grace_period: int | None,
    *,
    dry_run: bool,
) -> bytes | None:
    """Return the body. An API server that gets one ignores the query, so a dry run is named in both."""
    options: dict[str, Any] = {"dryRun": ["All"]} if dry_run else {}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if any(preconditions.values()):
        options["preconditions"] = {k: v for k, v in preconditions.items() if v}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    if not options:
        return None
    return orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", **options})


def _encoded(value: Mapping[str, Any] | Sequence[Any], what: str = "") -> bytes:
    """Return a body as it is sent. Raises LimitExceeded for one that is nested too deep, TypeError for what JSON has not."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        if value_depth(value, OBJECT_DEPTH) <= OBJECT_DEPTH:
            raise
    if isinstance(value, Mapping) and not what:
        metadata = value.get("metadata") or {}
        names = filter(None, (metadata.get("namespace"), metadata.get("name")))
        what = f"{value.get('kind')} {'/'.join(names)}"
    raise LimitExceeded(what, "depth", OBJECT_DEPTH)
