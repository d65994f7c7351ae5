"""The routes of replication."""

from __future__ import annotations

from aiohttp import web

from catalog.http.deadline import bounded
from replication import (
    acceptances,
    digests,
    feed,
    handshake,
    keyhistories,
    linkcourse,
    links,
    notifications,
    receive,
    recovery,
    selectionchange,
    signatureaudit,
    signing,
    trusting,
)
from replication.openapi_replication import DESCRIPTION

routes: list[web.AbstractRouteDef] = [
    DESCRIPTION,
    web.get("/replication", bounded(handshake.get_handshake)),
    web.get("/replication/changes", feed.get_changes),
    web.get("/replication/snapshot", feed.get_snapshot),
    web.get("/replication/digests", digests.get_digests),
    web.post("/replication/fetch", bounded(feed.post_fetch)),
    web.post("/replication/repair", bounded(links.post_repair)),
    web.get("/replication/links", bounded(links.list_links)),
    web.post("/replication/links", bounded(links.create_link)),
    web.get("/replication/links/{id}", bounded(links.get_link)),
    web.put("/replication/links/{id}", bounded(links.replace_link)),
    web.patch("/replication/links/{id}", bounded(selectionchange.change_selection)),
    web.delete("/replication/links/{id}", bounded(links.delete_link)),
    web.post("/replication/links/{id}/pin", bounded(links.pin_link)),
    web.post("/replication/links/{id}/reset", bounded(links.reset_link)),
    web.post("/replication/links/{id}/pause", bounded(linkcourse.pause_link)),
    web.post("/replication/links/{id}/resume", bounded(linkcourse.resume_link)),
    web.post("/replication/links/{id}/run", bounded(linkcourse.run_link)),
    web.post("/replication/links/{id}/allow", bounded(linkcourse.allow_link)),
    web.get("/replication/links/{id}/conflicts", bounded(links.list_conflicts)),
    web.post("/replication/entities", bounded(receive.post_entities)),
    web.get("/replication/acceptances", bounded(acceptances.list_acceptances)),
    web.post("/replication/acceptances", bounded(acceptances.create_acceptance)),
    web.delete("/replication/acceptances/{id}", bounded(acceptances.delete_acceptance)),
    web.get("/replication/recovery", bounded(recovery.get_recovery)),
    web.post("/replication/recovery", bounded(recovery.begin_recovery)),
    web.delete("/replication/recovery", bounded(recovery.abort_recovery)),
    web.post("/replication/recovery/resume", bounded(recovery.resume_recovery)),
    web.post("/replication/recovery/bury", bounded(recovery.bury_refused)),
    web.get("/replication/recovery/findings", bounded(recovery.list_findings)),
    web.get("/replication/keys", bounded(keyhistories.get_keys)),
    web.post("/replication/keys", bounded(keyhistories.post_keys)),
    web.get("/replication/signing", bounded(signing.get_signing)),
    web.put("/replication/signing", bounded(signing.put_signing)),
    web.post("/replication/signing/rotate", bounded(signing.rotate_key)),
    web.get("/replication/trust", bounded(trusting.list_trust)),
    web.post("/replication/trust", bounded(trusting.add_trust)),
    web.delete("/replication/trust", bounded(trusting.remove_trust)),
    web.get("/replication/signatures", bounded(signatureaudit.get_signatures)),
    web.post("/notifications", bounded(notifications.post_notification)),
    web.options("/notifications", notifications.grant_notifications),
]
