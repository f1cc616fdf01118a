import sys

import hazelcast
from hazelcast.core import HazelcastJsonValue
from hazelcast.predicate import greater

address = (sys.argv[1:] + ["127.0.0.1:5701"])[0]
client = hazelcast.HazelcastClient(cluster_name="dev", cluster_members=[address])
people = client.get_map("people").blocking()
people.set("ann", HazelcastJsonValue({"age": 41, "city": "Oslo"}))
print(people.get("ann"), people.key_set(greater("age", 40)))
client.shutdown()
