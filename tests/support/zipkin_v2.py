"""Reads spans of Zipkin's version 2 strictly by its definition (zipkin2-api.yaml): members, types, digits, units."""

import ipaddress
import json
import re

KINDS = ("CLIENT", "SERVER", "PRODUCER", "CONSUMER")
# The year 2100: more is not microseconds.
LATEST = 4_102_444_800_000_000


def whole(number):
    return isinstance(number, int) and not isinstance(number, bool)


def is_id(*lengths):
    def check(value):
        return isinstance(value, str) and len(value) in lengths and re.fullmatch("[0-9a-f]+", value) and value.strip("0")

    return check


def is_address(kind):
    def check(value):
        # Raises what is no address.
        return isinstance(value, str) and str(kind(value)) == value

    return check


def is_text(value):
    return isinstance(value, str)


def is_time(value):
    return whole(value) and 0 < value < LATEST


def is_object(members, required):
    def check(value):
        if not isinstance(value, dict) or not required <= set(value):
            return False
        unknown = set(value) - set(members)
        wrong = [name for name in value if name in members and not members[name](value[name])]
        if unknown or wrong:
            raise ValueError("unknown %s, wrong %s: %s" % (sorted(unknown), wrong, value))
        return True

    return check


def is_list(check):
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_tags(value):
    return isinstance(value, dict) and all(map(is_text, value.values()))


ENDPOINT = is_object({
    "serviceName": is_text,
    "ipv4": is_address(ipaddress.IPv4Address),
    "ipv6": is_address(ipaddress.IPv6Address),
    "port": lambda value: whole(value) and 0 < value < 65536,
}, set())
SPAN = is_object({
    "traceId": is_id(16, 32),
    "id": is_id(16),
    "parentId": is_id(16),
    "name": is_text,
    "kind": lambda value: value in KINDS,
    "timestamp": is_time,
    "duration": lambda value: whole(value) and 0 < value < LATEST,
    "debug": lambda value: isinstance(value, bool),
    "shared": lambda value: isinstance(value, bool),
    "localEndpoint": ENDPOINT,
    "remoteEndpoint": ENDPOINT,
    "annotations": is_list(is_object({"timestamp": is_time, "value": is_text}, {"timestamp", "value"})),
    "tags": is_tags,
}, {"traceId", "id"})


def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice: %s" % pairs)
    return members


def read(content_type, body):
    """The spans of a request. Raises ValueError: what is no list of spans."""
    if (content_type or "").partition(";")[0].strip() != "application/json":
        raise ValueError("content type %s" % content_type)
    spans = json.loads(body, object_pairs_hook=unique)
    if not is_list(SPAN)(spans):
        raise ValueError("no list of spans with traceId and id: %s" % body)
    return spans
