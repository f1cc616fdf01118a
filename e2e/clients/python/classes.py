"""Names classes of its own to members that have them, and ends with code 1 at the first wrong result.

    python classes.py CLUSTER ADDRESS,ADDRESS,...
"""

import os
import sys
import traceback

import hazelcast
from hazelcast import predicate
from hazelcast.serialization.api import IdentifiedDataSerializable, Portable

from use import fails, same

CLUSTER, ADDRESSES = sys.argv[1], sys.argv[2].split(",")


class Numbered(IdentifiedDataSerializable):
    """A class that writes one number."""

    def __init__(self, factory, class_id, number):
        self.ids, self.number = (factory, class_id), number

    def write_data(self, output):
        output.write_int(self.number)

    def read_data(self, _input):
        raise NotImplementedError

    def get_factory_id(self):
        return self.ids[0]

    def get_class_id(self):
        return self.ids[1]


class Downwards(Portable):
    def write_portable(self, writer):
        writer.write_int("unused", 1)

    def read_portable(self, _reader):
        raise NotImplementedError

    def get_factory_id(self):
        return 68

    def get_class_id(self):
        return 1


def comparators(client):
    m = client.get_map("pages").blocking()
    m.put_all({f"k{i}": i for i in range(25)})
    by_rest = sorted(range(25), key=lambda i: (i % 4, i))
    page = predicate.paging(predicate.true(), 10, Numbered(67, 2, 4))
    for want in [by_rest[:10], by_rest[10:20], by_rest[20:], []]:
        same(f"values of page {page.page}", m.values(page), want)
        same(f"keys of page {page.page}", m.key_set(page), [f"k{i}" for i in want])
        same(f"entries of page {page.page}", m.entry_set(page), [(f"k{i}", i) for i in want])
        page.next_page()
    page.page = 2_000_000_000
    same("a page far beyond the end", m.values(page), [])
    few = predicate.paging(predicate.less("this", 7), 4, Downwards())
    same("a portable comparator", m.values(few), [6, 5, 4, 3])
    same("its next page", few.next_page() and m.values(few), [2, 1, 0])
    for what, like, comparator in [
        ("unknown", "IllegalArgument.*hazelcast/67/9", Numbered(67, 9, 1)),
        ("that refuses its argument", "IllegalArgument.*hazelcast/67/2.*0 is no number", Numbered(67, 2, 0)),
        ("that panics", "hazelcast/67/3.*cannot compare", Numbered(67, 3, 1)),
        ("that is no class of members", "type -11", "text"),
    ]:
        fails(f"a comparator {what}", like, lambda c=comparator: m.values(predicate.paging(predicate.true(), 10, c)))
    same("the connection lives", m.size(), 25)


def processors(client):
    for name in ("plain", "stored"):
        m = client.get_map(name).blocking()
        same(f"the first call, {name}", m.execute_on_key("a", Numbered(67, 1, 5)), 5)
        same(f"the second call, {name}", m.execute_on_key("a", Numbered(67, 1, 2)), 7)
        same(f"several, {name}", sorted(m.execute_on_keys(["a", "b"], Numbered(67, 1, 1))), [("a", 8), ("b", 1)])
        same(f"one twice, {name}", m.execute_on_keys(["b", "b"], Numbered(67, 1, 0)), [("b", 1)])
        same(f"all, {name}", sorted(m.execute_on_entries(Numbered(67, 1, 1))), [("a", 9), ("b", 2)])
        over_5 = predicate.greater("this", 5)
        same(f"some, {name}", m.execute_on_entries(Numbered(67, 1, 1), over_5), [("a", 10)])
        fails(f"unknown, {name}", "hazelcast/67/9", lambda m=m: m.execute_on_key("a", Numbered(67, 9, 1)))
        m.evict_all()
        same(f"evicted, {name}", m.size(), 0)
        same(f"after the eviction, {name}", m.execute_on_key("a", Numbered(67, 1, 1)), 11 if name == "stored" else 1)


def main():
    client = hazelcast.HazelcastClient(
        cluster_name=CLUSTER, cluster_members=ADDRESSES, portable_factories={68: {1: Downwards}}
    )
    comparators(client)
    processors(client)
    client.shutdown()
    print("all ok")


if __name__ == "__main__":
    try:
        main()
    except Exception:  # whatever it is
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # threads of the client may be alive
