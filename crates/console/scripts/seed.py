#!/usr/bin/env python3
"""Fills a development server with data, so that every page of the console has something to show.

    hapax dev --stub --data /tmp/try &
    python3 seed.py http://127.0.0.1:7171 "$(cat /tmp/try/api-key)" --orders 40

It needs the stub provider on 127.0.0.1:7272. Without --orders there are a few of each kind.
"""
import argparse
import json
import time
import urllib.error
import urllib.request

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("server")
parser.add_argument("key")
parser.add_argument("--orders", type=int, default=6)
parser.add_argument("--stub", default="http://127.0.0.1:7272/stub")
arguments = parser.parse_args()
EVIL = "<img src=x onerror=alert(1)>"


def call(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(arguments.server + path, data=data, method=method)
    request.add_header("content-type", "application/json")
    request.add_header("authorization", f"Bearer {arguments.key}")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        text = error.read()
        if error.code not in (409, 412, 422):
            print(method, path, error.code, text.decode()[:300])
    return json.loads(text) if text else {}


def post(path, body, **headers):
    return call("POST", path, body, **headers)


STUB = arguments.stub
ORDER = {
    "name": "process-order", "version": 1, "description": "Charges an order and waits until it is packed.",
    "idempotency": "optional",
    "input": {"type": "object", "required": ["orderId", "cents"], "properties": {
        "orderId": {"type": "string", "minLength": 1, "title": "Order"},
        "cents": {"type": "integer", "minimum": 1},
        "express": {"type": "boolean"},
        "channel": {"type": "string", "enum": ["web", "phone", "shop"]},
        "items": {"type": "array", "items": {"type": "string"}}}},
    "steps": [
        {"name": "reserve", "type": "task", "task": "echo", "input": {"order": "{{ input.orderId }}"}},
        {"name": "charge", "type": "http", "method": "POST", "url": f"{STUB}/charges",
         "body": {"amount": "{{ input.cents }}", "reference": "{{ input.orderId }}"},
         "output": {"chargeId": "{{ response.body.id }}"}, "effect": "claimed", "timeout": "2s"},
        {"name": "packed", "type": "promise", "key": "packed:{{ input.orderId }}", "timeout": "3d"},
        {"name": "mail", "type": "http", "method": "POST", "url": f"{STUB}/charges", "body": {"mail": "{{ input.orderId }}"}},
    ],
    "output": {"charge": "{{ state.chargeId }}"},
}
STEPS = [
    ORDER,
    {"name": "lost-charge", "version": 1, "steps": [
        {"name": "charge", "type": "http", "method": "POST", "url": f"{STUB}/charges?lose=true", "body": {"amount": 4200},
         "effect": "claimed", "timeout": "1s"}]},
    {"name": "flaky-invoice", "version": 1, "steps": [
        {"name": "book", "type": "http", "method": "POST", "url": f"{STUB}/charges?fail=503", "body": {"amount": 1},
         "retry": {"for": "2h", "first": "1s", "cap": "1m"}}]},
    {"name": "failing-import", "version": 1, "steps": [
        {"name": "fetch", "type": "http", "method": "POST", "url": f"{STUB}/charges?fail=400", "body": {}, "retry": {"maxAttempts": 2, "first": "1s"}}]},
    {"name": "refund-approval", "version": 1, "steps": [
        {"name": "decide", "type": "approval", "by": {"roles": ["manager", "admin"]}, "decisions": ["approve", "edit", "reject"],
         "show": {"order": "{{ input.order }}", "amount": "{{ input.amount }}"}, "fields": ["amount"], "timeout": "2d"},
        {"name": "split", "type": "parallel", "branches": [
            [{"name": "ledger", "type": "task", "task": "echo", "input": {}}],
            [{"name": "later", "type": "wait", "for": "5m"}]]}]},
    {"name": "fulfilment", "version": 1, "steps": [
        {"name": "order", "type": "child", "workflow": "process-order", "input": {"orderId": "{{ input.orderId }}-child", "cents": 900}},
        {"name": "ask", "type": "signal", "signal": "customer-answered", "timeout": "1d"}]},
]
for document in STEPS:
    post("/api/v1/workflow-definitions", document)
post("/api/v1/workflow-definitions", {**ORDER, "version": 2, "description": "Mails twice as politely."})
post("/api/v1/entity-workflows", {
    "name": "invoices", "module": "default", "entity": "invoice", "description": "Close invoices, and give money back.",
    "status_types": ["approved", "closing", "closed", "refunding", "refunded"], "initial": ["approved", "closed"],
    "steps": [
        {"step_id": 10, "step_key": "close", "status": "approved", "successful_state": "closed",
         "claim_state": ["closing", "approved"], "action": "echo"},
        {"step_id": 20, "step_key": "refund", "status": "closed", "successful_state": "refunded",
         "claim_state": ["refunding", "closed"], "action": {"workflow": "refund-approval", "input": {"order": "{{ input.order }}", "amount": "{{ input.amount }}"}}, "irreversible": "once",
         "effect": "non_idempotent"}]})
post("/api/v1/webhook-sources", {
    "name": "shop", "signature": {"scheme": "none", "allowUnsigned": True}, "eventId": {"pointer": "/id"},
    "filter": "body.type != 'ping'",
    "actions": [{"settle": {"key": "packed:{{ body.order }}", "value": {"by": "{{ body.by }}"}}}]})
source = call("GET", "/api/v1/webhook-sources")["items"][0]
post("/api/v1/webhook-sources", {
    "name": "bank", "signature": {"scheme": "none", "allowUnsigned": True}, "eventId": {"pointer": "/id"},
    "actions": [{"signal": {"key": "{{ body.order }}", "name": "paid", "payload": "{{ body.amount }}"}}]})
sources = {it["name"]: it["id"] for it in call("GET", "/api/v1/webhook-sources")["items"]}
for name, url in (("warehouse", f"{STUB}/charges"), ("accounting", f"{STUB}/charges?fail=503")):
    post("/api/v1/webhook-subscriptions", {"name": name, "url": url, "events": ["run.completed", "run.failed"]})

for number in range(4700, 4700 + arguments.orders):
    order = f"{number}"
    post("/api/v1/workflow-runs", {"workflow": "process-order", "subject": order, "idempotencyKey": f"order-{order}",
                                   "input": {"orderId": order, "cents": 9007199254740993 if number % 7 == 0 else 100 * (number % 90 + 1), "channel": "web"}})
    if number % 2 == 0:
        post(f"/api/v1/webhooks/{sources['shop']}", {"id": f"evt_{order}", "type": "packed", "order": order, "by": "anna"})
    invoice = f"R{number}"
    post("/api/v1/entities/invoice", {"id": invoice, "status": ["approved", "closed", "closed"][number % 3], "data": {"order": order, "total": 120.50}})
    if number % 3 == 1:
        post(f"/api/v1/entities/invoice/{invoice}/steps/refund", {"input": {"order": order, "amount": 4200}}, prefer="wait=0")
# The same start again, and one that means something else.
first = {"workflow": "process-order", "subject": "4700", "idempotencyKey": "order-4700", "input": {"orderId": "4700", "cents": 100, "channel": "web"}}
post("/api/v1/workflow-runs", first)
post("/api/v1/workflow-runs", {**first, "input": {"orderId": "4700", "cents": 999}})
for number in range(max(2, arguments.orders // 10)):
    post("/api/v1/workflow-runs", {"workflow": "lost-charge", "subject": f"customer-{number + 12}", "input": {}})
    post("/api/v1/workflow-runs", {"workflow": "flaky-invoice", "input": {}})
    post("/api/v1/workflow-runs", {"workflow": "failing-import", "input": {"file": EVIL}})
    post("/api/v1/workflow-runs", {"workflow": "refund-approval", "subject": f"4{number}11", "input": {"order": f"4{number}11", "amount": 4200, "note": EVIL}})
    post("/api/v1/workflow-runs", {"workflow": "fulfilment", "input": {"orderId": f"F{number}"}})
    post(f"/api/v1/webhooks/{sources['bank']}", {"id": f"evt_bank_{number}", "order": f"nobody-{number}", "amount": 12})
    post(f"/api/v1/webhooks/{sources['shop']}", {"id": f"evt_early_{number}", "type": "packed", "order": f"9{number}", "by": "late"})
    post(f"/api/v1/webhooks/{sources['shop']}", {"id": f"evt_ping_{number}", "type": "ping"})
runs = call("GET", "/api/v1/workflow-runs?limit=20")["items"]
for run in runs[:3]:
    post(f"/api/v1/workflow-runs/{run['id']}/notes", {"text": "The customer called and asked where the order is. " + EVIL})
post("/api/v1/entities/invoice/R4700/notes", {"text": "The customer waits for the refund."})
for name, role in (("Support desk", "operator"), ("Night shift", "manager"), ("Dashboard", "viewer"), ("Order service", "worker")):
    post("/api/v1/credentials", {"name": name, "role": role})
time.sleep(6)
print("done")
