"""Uses maps as an application does, and ends with code 1 at the first wrong result.

    python use.py CLUSTER ADDRESS,ADDRESS,...
"""

import datetime
import decimal
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid

import hazelcast
from hazelcast import aggregator, predicate, projection
from hazelcast.config import IndexType
from hazelcast.core import HazelcastJsonValue
from hazelcast.serialization.api import CompactSerializer, Portable

CLUSTER, ADDRESSES = sys.argv[1], sys.argv[2].split(",")


class Wrong(Exception):
    pass


def same(what, got, want):
    if got != want or isinstance(got, bool) != isinstance(want, bool):
        raise Wrong(f"{what}: want {want!r}, got {got!r}")


def fails(what, like, call):
    try:
        got = call()
    except Exception as e:  # any: its text decides
        if not re.search(like, f"{type(e).__name__}: {e}"):
            raise Wrong(f"{what}: want an error like {like}") from e
        return
    raise Wrong(f"{what}: want an error like {like}, got the result {got!r}")


def within(seconds, what, want, ask):
    end = time.monotonic() + seconds
    while True:
        got = ask()
        if got == want:
            return
        if time.monotonic() > end:
            raise Wrong(f"{what}, after {seconds} s: want {want!r}, got {got!r}")
        time.sleep(0.02)


def connect():
    return hazelcast.HazelcastClient(
        cluster_name=CLUSTER, cluster_members=ADDRESSES, compact_serializers=[BillSerializer()], portable_factories={70: {1: PortableBill}}
    )


def as_json(v):
    return HazelcastJsonValue(json.dumps(v))


def hold():
    """What runs in a process of its own, to be killed: it locks and waits."""
    m = connect().get_map("python-orphans").blocking()
    for i in range(12):
        m.lock(f"k{i}")
    print("held", flush=True)
    time.sleep(120)


def holder():
    """Starts that process, and returns it when it has its locks."""
    child = subprocess.Popen([sys.executable, __file__, *sys.argv[1:3], "hold"], stdout=subprocess.PIPE)
    same("the holder of locks", child.stdout.readline(), b"held\n")
    return child


def singles(client):
    m = client.get_map("python-singles").blocking()
    same("get of an absent key", m.get("a"), None)
    same("put of a new key", m.put("a", "one"), None)
    same("put again", m.put("a", "two"), "one")
    same("get", m.get("a"), "two")
    m.set("a", "three")
    same("contains_key", m.contains_key("a"), True)
    same("contains_key of an absent one", m.contains_key("b"), False)
    same("contains_value", m.contains_value("three"), True)
    same("contains_value of an old value", m.contains_value("two"), False)
    same("put_if_absent of a present key", m.put_if_absent("a", "x"), "three")
    same("put_if_absent of an absent key", m.put_if_absent("b", "x"), None)
    same("replace", m.replace("b", "y"), "x")
    same("replace of an absent key", m.replace("c", "y"), None)
    same("replace_if_same of another value", m.replace_if_same("b", "x", "z"), False)
    same("replace_if_same", m.replace_if_same("b", "y", "z"), True)
    same("remove_if_same of another value", m.remove_if_same("b", "y"), False)
    same("remove_if_same", m.remove_if_same("b", "z"), True)
    same("remove", m.remove("a"), "three")
    same("remove again", m.remove("a"), None)
    same("is_empty", m.is_empty(), True)
    same("try_put", m.try_put("t", 1, 1), True)
    same("try_remove", m.try_remove("t", 1), True)
    same("evict of an absent key", m.evict("t"), False)
    m.delete("nothing")
    same("size", m.size(), 0)


def types(client):
    m = client.get_map("python-types").blocking()
    values = {
        "text": "Grüße, 世界 🌍", "empty": "", "int": -7, "double": 1.5, "yes": True, "no": False, "bytes": bytearray(b"\0\1\2\xff"),
        "list": ["a", 1, None, 2.5], "decimal": decimal.Decimal("-12345678901234567890.12345"), "uuid": uuid.UUID(int=1 << 100),
        "date": datetime.date(2024, 2, 29), "time": datetime.time(1, 2, 3, 4), "large": "x" * (1 << 20),
        "instant": datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.timezone.utc), "pickled": {"a": {1, 2}},
    }
    for key, v in values.items():
        m.put(key, v)
        same(f"a value of the kind {key}", m.get(key), v)
    m.put("json", as_json({"a": [1, None]}))
    same("a JSON value", m.get("json").loads(), {"a": [1, None]})
    for key in [1, 1.5, True, "text", uuid.UUID(int=7)]:
        m.put(key, "here")
        same(f"a key {key!r}", m.get(key), "here")
    m.put("same", as_json({"b": 1, "a": 2}))  # C140: what was read can always be given back
    for i in range(100):
        same("replace_if_same of what was read", m.replace_if_same("same", m.get("same"), as_json({"b": 1, "a": 2, "i": i})), True)


def bulk(client):
    m = client.get_map("python-bulk").blocking()
    all_of_it = {f"k{i}": i for i in range(500)}
    m.put_all(all_of_it)
    same("size after put_all", m.size(), 500)
    same("get_all", m.get_all(list(all_of_it)), all_of_it)
    same("C139: get_all of absent and repeated keys", m.get_all(["k1", "x", "k2", "k1"]), {"k1": 1, "k2": 2})
    same("C139: get_all of absent keys", m.get_all(["x", "y"]), {})
    same("C139: get_all of nothing", m.get_all([]), {})
    same("C141: asking adds nothing", m.size(), 500)
    same("key_set", sorted(m.key_set()), sorted(all_of_it))
    same("values", sorted(m.values()), sorted(all_of_it.values()))
    same("entry_set", dict(m.entry_set()), all_of_it)
    fails("a value that is too large", "MaxMessageSizeExceeded.*limit", lambda: m.set("big", "v" * (9 << 20)))
    m.clear()
    same("size after clear", m.size(), 0)


def predicates(client):
    m = client.get_map("python-people").blocking()
    p = predicate
    m.put_all({f"p{i}": as_json({"name": f"n{i}", "age": i, "city": ["Oslo", "Rome"][i % 2], "tags": [f"t{i % 10}"]}) for i in range(100)})

    def found(what, where, want):
        same(f"values: {what}", sorted(v.loads()["age"] for v in m.values(where)), want)
        same(f"keys: {what}", sorted(m.key_set(where)), sorted(f"p{i}" for i in want))
        same(f"entries: {what}", len(m.entry_set(where)), len(want))

    ages = list(range(100))
    for index in ["none", "hash", "sorted"]:
        found(f"equal, {index}", p.equal("age", 42), [42])
        found(f"not_equal, {index}", p.not_equal("age", 42), [i for i in ages if i != 42])
        found(f"greater, {index}", p.greater("age", 96), [97, 98, 99])
        found(f"greater_or_equal, {index}", p.greater_or_equal("age", 97), [97, 98, 99])
        found(f"less, {index}", p.less("age", 2), [0, 1])
        found(f"less_or_equal, {index}", p.less_or_equal("age", 2), [0, 1, 2])
        found(f"between, {index}", p.between("age", 10, 12), [10, 11, 12])
        found(f"in, {index}", p.in_("age", 1, 50, 1000), [1, 50])
        if index == "none":
            m.add_index(attributes=["age"], index_type=IndexType.HASH)
        elif index == "hash":
            m.add_index(attributes=["age"], index_type=IndexType.SORTED)
    found("like", p.like("name", "n1_"), list(range(10, 20)))
    found("ilike", p.ilike("name", "N9%"), [9, *range(90, 100)])
    found("regex", p.regex("name", "n[12]"), [1, 2])
    found("and", p.and_(p.greater("age", 90), p.equal("city", "Oslo")), [92, 94, 96, 98])
    found("or", p.or_(p.equal("age", 1), p.equal("age", 3)), [1, 3])
    found("not", p.not_(p.greater("age", 0)), [0])
    found("sql", p.sql("age BETWEEN 20 AND 30 AND city = 'Rome'"), [21, 23, 25, 27, 29])
    found("key", p.equal("__key", "p7"), [7])
    found("elements", p.equal("tags[0]", "t3"), [i for i in ages if i % 10 == 3])
    found("everything", p.true(), ages)
    found("nothing", p.false(), [])
    found("one of very many", p.in_("age", *range(50, 5_000)), ages[50:])
    fails("a text that is no predicate", "position 6", lambda: m.values(p.sql("age >")))
    m.remove_all(p.less("age", 90))
    same("size after remove_all", m.size(), 10)


class Bill:
    """An object with decimals and times, single, absent and in lists."""

    def __init__(self, i, absent=False):
        zone = datetime.timezone(datetime.timedelta(hours=i - 5))
        self.price = None if absent else decimal.Decimal(i) / 4
        self.day = None if absent else datetime.date(2024, 1, 1 + i)
        self.at = None if absent else datetime.time(i, 30, 0, 5)
        self.made = None if absent else datetime.datetime(2024, 1, 1 + i, 12, 0)
        self.sent = None if absent else datetime.datetime(2024, 1, 1, 12, 0, tzinfo=zone)
        self.prices = None if absent else [self.price, decimal.Decimal("0.10")]
        self.days = None if absent else [self.day, datetime.date(1999, 12, 31)]


BILL = {
    "price": "decimal", "day": "date", "at": "time", "made": "timestamp", "sent": "timestamp_with_timezone",
    "prices": "array_of_decimal", "days": "array_of_date",
}


class BillSerializer(CompactSerializer):
    def get_class(self):
        return Bill

    def get_type_name(self):
        return "bill"

    def write(self, writer, bill):
        for field, kind in BILL.items():
            getattr(writer, "write_" + kind)(field, getattr(bill, field))

    def read(self, reader):
        bill = Bill(0)
        for field, kind in BILL.items():
            setattr(bill, field, getattr(reader, "read_" + kind)(field))
        return bill


class PortableBill(Bill, Portable):
    """The same in the other form, which has its lists under other names."""

    def __init__(self, i=0, absent=False):
        super().__init__(i, absent)

    def write_portable(self, writer):
        for field, kind in BILL.items():
            kind = kind.replace("array_of_", "") + "_array" * ("array" in kind)
            getattr(writer, "write_" + kind)(field, getattr(self, field))

    def read_portable(self, reader):
        for field, kind in BILL.items():
            kind = kind.replace("array_of_", "") + "_array" * ("array" in kind)
            setattr(self, field, getattr(reader, "read_" + kind)(field))

    def get_factory_id(self):
        return 70

    def get_class_id(self):
        return 1


def decimals_and_times(client):
    p, a = predicate, aggregator
    utc = datetime.timezone.utc
    for form in (Bill, PortableBill):
        m = client.get_map("python-" + form.__name__).blocking()
        m.put_all({i: form(i) for i in range(10)})
        m.set(99, form(0, absent=True))
        found = lambda where, want: same(f"{form.__name__}: {where}", sorted(m.key_set(where)), want)
        for indexed in (False, True):
            found(p.equal("price", decimal.Decimal("1.50")), [6])
            found(p.equal("price", 1.5), [6])
            found(p.greater("price", decimal.Decimal("1.75")), [8, 9])
            found(p.sql("price BETWEEN 0.25 AND 0.5"), [1, 2])
            found(p.in_("price", 0, decimal.Decimal("2.250")), [0, 9])
            found(p.equal("prices[any]", decimal.Decimal("0.1")), list(range(10)))
            found(p.greater_or_equal("prices[any]", 2), [8, 9])
            found(p.equal("price", None), [99])
            found(p.equal("day", datetime.date(2024, 1, 3)), [2])
            found(p.less("day", datetime.date(2024, 1, 3)), [0, 1])
            found(p.sql("day >= DATE '2024-01-09'"), [8, 9])
            found(p.equal("days[any]", datetime.date(1999, 12, 31)), list(range(10)))
            found(p.equal("days[0]", datetime.date(2024, 1, 4)), [3])
            found(p.greater_or_equal("at", datetime.time(8, 30, 0, 5)), [8, 9])
            found(p.sql("made = TIMESTAMP '2024-01-05T12:00:00'"), [4])
            found(p.less("sent", datetime.datetime(2024, 1, 1, 9, 30, tzinfo=utc)), [8, 9])
            found(p.sql("sent = TIMESTAMP '2024-01-01T12:00:00+04:00'"), [9])
            found(p.equal("day", "2024-01-03"), [])
            if not indexed:
                for attribute in ("price", "day", "prices[any]", "days[any]", "sent"):
                    m.add_index(attributes=[attribute], index_type=IndexType.SORTED)
        same("the least price", m.aggregate(a.min_("price")), decimal.Decimal(0))
        same("the greatest price", m.aggregate(a.max_("price")), decimal.Decimal("2.25"))
        same("the last day", m.aggregate(a.max_("day")), datetime.date(2024, 1, 10))
        same("the first of all days", m.aggregate(a.min_("days[any]")), datetime.date(1999, 12, 31))
        same("the latest", m.aggregate(a.max_("sent")).astimezone(utc).hour, 17)
        same("the latest time", m.aggregate(a.max_("at")), datetime.time(9, 30, 0, 5))
        same("the sum", m.aggregate(a.floating_point_sum("price")), 11.25)
        same("the sum of whole prices", m.aggregate(a.fixed_point_sum("price")), 8)
        same("the average", m.aggregate(a.number_avg("price")), 1.125)
        same("days that differ", len(m.aggregate(a.distinct("day"))), 11)
        same("what is there", m.aggregate(a.count("price"), p.not_equal("price", None)), 10)
        same("whose price is greatest", m.aggregate(a.max_by("price")).key, 9)
        same("a projection", sorted(m.project(projection.single_attribute("price"), p.less("price", 1))), [0, 0.25, 0.5, 0.75])
        same("several", m.project(projection.multi_attribute("day", "price"), p.equal("price", 1)), [[datetime.date(2024, 1, 5), 1]])
        entry = m.aggregate(a.min_by("day"))
        same("a whole entry", (entry.key, entry.value.days, entry.value.prices[1]), (0, Bill(0).days, decimal.Decimal("0.10")))
    m = client.get_map("python-typed").blocking()
    m.put_all({"d": decimal.Decimal("1.5"), "b": datetime.date(2024, 2, 3), "u": uuid.UUID(int=7), "t": "1.5", "f": 1.5})
    same("decimals as values", sorted(m.key_set(p.equal("this", decimal.Decimal("1.50")))), ["d", "f"])
    same("dates as values", m.key_set(p.greater("this", datetime.date(2024, 2, 2))), ["b"])
    same("UUIDs as values", m.key_set(p.equal("this", uuid.UUID(int=7))), ["u"])


def paging(client):
    m = client.get_map("python-pages").blocking()
    m.put_all({i: i * 10 for i in range(25)})
    page = predicate.paging(predicate.greater_or_equal("this", 20), 10)
    pages = [list(range(2, 12)), list(range(12, 22)), [22, 23, 24], []]
    for want in pages:
        same(f"keys of page {page.page}", m.key_set(page), want)
        page.next_page()
    page.page = 1
    same("values of page 1", m.values(page), [i * 10 for i in pages[1]])
    page.previous_page()
    same("entries of page 0", m.entry_set(page), [(i, i * 10) for i in pages[0]])


def aggregates(client):
    m = client.get_map("python-aggregates").blocking()
    m.put_all({f"a{i}": as_json({"n": i, "even": i % 2 == 0, "f": i / 4}) for i in range(10)})
    big = predicate.greater_or_equal("n", 5)
    same("count", m.aggregate(aggregator.count()), 10)
    same("count where", m.aggregate(aggregator.count(), big), 5)
    same("count of nothing", m.aggregate(aggregator.count(), predicate.false()), 0)
    same("fixed_point_sum", m.aggregate(aggregator.fixed_point_sum("n")), 45)
    same("floating_point_sum", m.aggregate(aggregator.floating_point_sum("f")), 11.25)
    same("number_avg", m.aggregate(aggregator.number_avg("n"), big), 7)
    same("max", m.aggregate(aggregator.max_("n")), 9)
    same("min", m.aggregate(aggregator.min_("n")), 0)
    same("distinct", m.aggregate(aggregator.distinct("even")), {False, True})
    same("projection", sorted(m.project(projection.single_attribute("n"))), list(range(10)))
    same("projection of two", sorted(m.project(projection.multi_attribute("n", "even"), big)), [[i, i % 2 == 0] for i in range(5, 10)])
    ints = client.get_map("python-ints").blocking()
    ints.put_all({i: i for i in range(4)})
    same("int_sum", ints.aggregate(aggregator.int_sum()), 6)
    same("int_avg", ints.aggregate(aggregator.int_avg()), 1.5)
    same("identity", sorted(e.value for e in ints.project(projection.identity())), [0, 1, 2, 3])


def locks(client):
    other = connect()
    m, theirs = client.get_map("python-locks").blocking(), other.get_map("python-locks").blocking()
    m.lock("k")
    same("is_locked", theirs.is_locked("k"), True)
    same("try_lock of a locked key", theirs.try_lock("k"), False)
    same("try_lock with time", theirs.try_lock("k", timeout=0.1), False)
    same("try_put on a locked key", theirs.try_put("k", 1, 0.1), False)
    fails("unlock by another", "IllegalMonitorState", lambda: theirs.unlock("k"))
    same("put by the owner", m.put("k", 1), None)
    m.put_all({"k": 1, "n": 2})  # by the owner, too: these do not say which thread they come from
    m.set_ttl("k", 60)
    theirs.remove_all(predicate.true())
    same("what others remove", m.key_set(), ["k"])
    m.remove_all(predicate.true())
    same("what the owner removes", m.size(), 0)
    got = []
    waiter = threading.Thread(target=lambda: (theirs.lock("k"), got.append(time.monotonic()), theirs.unlock("k")), daemon=True)
    waiter.start()
    m.lock("k")  # re-entrant
    m.unlock("k")
    same("still locked after one of two unlocks", theirs.try_lock("k"), False)
    m.unlock("k")
    waiter.join(10)
    same("a waiter has had the lock", len(got), 1)
    theirs.lock("k")
    m.force_unlock("k")
    same("is_locked after force_unlock", m.is_locked("k"), False)
    same("C137: try_lock without a lease", m.try_lock("t"), True)
    m.lock("leased", 0.4)
    same("a lease runs", theirs.try_lock("leased"), False)
    same("a lease ends", theirs.try_lock("leased", timeout=5), True)
    same("C137: it is held", theirs.try_lock("t"), False)
    same("another thread of this client is somebody else", in_thread(lambda: m.try_lock("t")), False)
    other.shutdown()


def in_thread(call):
    out = []
    t = threading.Thread(target=lambda: out.append(call()), daemon=True)
    t.start()
    t.join(20)
    return out[0] if out else "no answer"


def life(client):
    m = client.get_map("python-life").blocking()
    m.put("short", 1, ttl=1.5)
    m.put("idle", 1, ttl=0, max_idle=2)  # ends at a whole second: at least one from now
    m.put("long", 1, ttl=60)
    m.put("ever", 1)
    same("before the end", len(m.get_all(["short", "idle", "long", "ever"])), 4)
    view = m.get_entry_view("long")
    same("view", (view.ttl, view.value, view.key), (60000, 1, "long"))
    same("view of nothing", m.get_entry_view("nothing"), None)
    m.set_ttl("ever", 0.5)
    within(8, "what is left when times are over", ["long"], m.key_set)


def listeners(client):
    m = client.get_map("python-heard").blocking()
    heard, cleared = [], []

    def hear(who):
        types = ["added", "updated", "removed", "evicted", "expired"]
        return {f"{t}_func": lambda e, t=t: heard.append((who, t, e.key, e.value, e.old_value)) for t in types}

    m.add_entry_listener(clear_all_func=lambda e: cleared.append(e.number_of_affected_entries))
    m.add_entry_listener(include_value=True, **hear("all"))
    forgotten = m.add_entry_listener(include_value=True, key="b", **hear("forgotten"))
    for key in "abc":  # C145
        m.add_entry_listener(include_value=True, key=key, **hear(key))
    m.add_entry_listener(include_value=True, predicate=predicate.greater("this", 10), **hear("large"))
    m.add_entry_listener(key="b", **hear("bare"))
    same("remove_entry_listener", m.remove_entry_listener(forgotten), True)
    m.put("b", 1)
    m.put("b", 11)
    m.remove("b")
    m.put("e", 2)
    m.evict("e")
    m.put("t", 3, ttl=0.3)
    of_b = [("added", "b", 1, None), ("updated", "b", 11, 1), ("removed", "b", None, 11)]
    want = [("all", *e) for e in of_b] + [("b", *e) for e in of_b] + [("bare", t, "b", None, None) for t, *_ in of_b]
    want += [("all", "added", "e", 2, None), ("all", "evicted", "e", None, 2)]
    want += [("all", "added", "t", 3, None), ("all", "expired", "t", None, 3)]
    within(10, "events", sorted(map(repr, want)), lambda: sorted(repr(e) for e in list(heard) if e[0] != "large"))
    same("order of the events of one key", [e[1] for e in heard if e[0] == "all" and e[2] == "b"], ["added", "updated", "removed"])
    same("events of values that are not large", [e for e in heard if e[0] == "large" and max(e[3] or 0, e[4] or 0) <= 10], [])
    m.put("x", 1)
    m.clear()
    within(10, "clear_all", True, lambda: len(cleared) > 0)


def engine_maps(client):
    m = client.get_map("engine_jobs").blocking()
    m.size()
    fails("a put to a map of the engine", "belongs to the job engine", lambda: m.put("k", "v"))
    fails("a lock in a map of the engine", "belongs to the job engine", lambda: m.lock("k"))


def rest(client):
    """Reads what was put over HTTP, and puts what is going to be read there."""
    m = client.get_map("from-rest").blocking()
    same("text of REST", m.get("text"), "héllo")
    same("JSON of REST", m.get("json").loads(), {"a": [1, None]})
    same("a number of REST", m.get("number").loads(), 42)
    same("bytes of REST", m.get("bytes"), bytearray(b"\0\1\xff"))
    client.get_map("python-to-rest").blocking().put_all({
        "text": "héllo", "double": 1.5, "yes": True, "whole": 7, "json": as_json({"a": [1, None]}), "bytes": bytearray(b"\0\1\xff"),
        "foreign": uuid.UUID(int=7),
    })


def after_the_kill(client):
    m = client.get_map("python-orphans").blocking()
    for i in range(12):
        same(f"lock {i} of a client that was killed", m.try_lock(f"k{i}", timeout=20), True)


STEPS = [singles, types, bulk, predicates, decimals_and_times, paging, aggregates, locks, life, listeners, engine_maps, rest, after_the_kill]


def main():
    client = connect()
    victim = holder()
    same("try_lock while its owner lives", client.get_map("python-orphans").blocking().try_lock("k0"), False)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    for step in STEPS:
        began = time.monotonic()
        step(client)
        print(f"ok {step.__name__} {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
    client.shutdown()
    print("all ok")


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    if sys.argv[3:] == ["hold"]:
        hold()
    try:
        main()
    except Exception:  # whatever it is
        traceback.print_exc()
        print("WRONG", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)  # threads of the client may be alive
