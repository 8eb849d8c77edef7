"""An operator whose kind has defaults, checks, and two versions: a ConfigMap for each guest book."""

from typing import Annotated, ClassVar, Self

from pydantic import Field

from ctrlruntime import (
    BUILTIN,
    AdmissionOptions,
    ApiModel,
    Builder,
    Condition,
    Conditions,
    Config,
    Control,
    Desired,
    GroupVersionKind,
    Int32,
    Manager,
    ManagerOptions,
    Owner,
    Resource,
    WebhookOptions,
    as_reconciler,
    defaults,
    merge_patch,
    run,
    set_condition,
    validates,
)
from ctrlruntime.clock import utc_now
from ctrlruntime.webhook import Review

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
LARGEST = 500


class Size(ApiModel):
    """Pages, and lines on each."""

    pages: Annotated[Int32, Field(ge=1)] = 10
    lines: Int32 | None = None


class GuestBookSpec(ApiModel):
    """What the book is like."""

    title: str
    size: Size = Field(default_factory=Size)


class GuestBookStatus(ApiModel):
    """How it is."""

    conditions: Conditions = Field(default_factory=list)


class GuestBook(Resource[GuestBookSpec, GuestBookStatus], group="books.example.com", version="v2"):
    """A book that guests write in. This version is stored, and the controller knows no other."""

    admission: ClassVar = AdmissionOptions(timeout_seconds=5)

    @defaults
    def fill_in(self, review: Review) -> None:
        """Give a page the usual number of lines."""
        if self.spec.size.lines is None:
            self.spec.size.lines = 20

    @validates("create", "update")
    def check_size(self, review: Review) -> None:
        """Refuse a book that is too large, and one that loses pages."""
        pages = self.spec.size.pages
        if pages * (self.spec.size.lines or 0) > LARGEST:
            review.invalid("spec.size", pages, f"a book has at most {LARGEST} lines")
        if review.old is not None and pages < review.old.spec.size.pages:
            review.forbidden("spec.size.pages", "no page can be torn out")


class OldGuestBookSpec(ApiModel):
    """One text for title and pages: `Summer/10`."""

    headline: str


class OldGuestBook(
    Resource[OldGuestBookSpec, GuestBookStatus],
    group="books.example.com",
    version="v1",
    kind="GuestBook",
    storage=False,
):
    """A guest book as it was."""

    def to_hub(self) -> GuestBook:
        """Return it in the stored version."""
        title, _, pages = self.spec.headline.partition("/")
        size = Size(pages=int(pages)) if pages else Size()
        return GuestBook(spec=GuestBookSpec(title=title, size=size), status=self.status)

    @classmethod
    def from_hub(cls, hub: GuestBook) -> Self:
        """Return the stored version in this one, which has no place for lines."""
        headline = f"{hub.spec.title}/{hub.spec.size.pages}"
        return cls(spec=OldGuestBookSpec(headline=headline), status=hub.status)


def text(book: GuestBook) -> Desired:
    """Return the ConfigMap with the empty pages."""
    size, meta = book.spec.size, book.metadata
    line = "." * 20
    pages = {f"page-{n + 1}": "\n".join([line] * (size.lines or 1)) for n in range(size.pages)}
    return Desired(
        mapping=CONFIG_MAP,
        manifest={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "data": {"title": book.spec.title, **pages},
        },
    )


def setup(manager: Manager) -> None:
    """Add webhooks, conversion and the controller."""
    manager.webhooks.register(GuestBook)
    manager.webhooks.convert(GuestBook, OldGuestBook)
    control = Control(manager.cache, field_manager="guestbook")

    async def reconcile(book: GuestBook) -> None:
        if book.metadata.deletion_timestamp:
            return
        old, meta = book.model_copy(deep=True), book.metadata
        outcome = await control.ensure(text(book), Owner.of(book))
        condition = Condition(
            type="Ready",
            status="False" if outcome.conflict else "True",
            reason="Conflict" if outcome.conflict else "Printed",
            message=outcome.conflict,
        )
        set_condition(book.status.conditions, condition, utc_now())
        if patch := merge_patch(old, book):
            await manager.client.patch_status(
                GuestBook, meta.name or "", patch, namespace=meta.namespace
            )

    builder = Builder(manager).for_(GuestBook).owns(CONFIG_MAP, track_manager="guestbook")
    builder.build(as_reconciler(manager.client, GuestBook, reconcile))


async def main() -> None:
    """Run it until it is stopped."""
    options = ManagerOptions(
        name="guestbook",
        handle_signals=True,
        leader_election=True,
        leader_election_id="guestbook.example.com",
        webhook=WebhookOptions(
            service_name="guestbook-webhook",
            mutating_configurations=("guestbook-mutating",),
            validating_configurations=("guestbook-validating",),
        ),
    )
    manager = Manager(await Config.load(), options)
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())
