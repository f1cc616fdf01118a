"""Connects with a token, puts an entry and reads it back; ends with code 1 if it is not let in.

    python login.py CLUSTER ADDRESS TOKEN
"""

import sys

import hazelcast
from hazelcast.security import BasicTokenProvider

cluster, address, token = sys.argv[1:]
try:
    client = hazelcast.HazelcastClient(
        cluster_name=cluster,
        cluster_members=[address],
        cluster_connect_timeout=0.5,
        token_provider=BasicTokenProvider(token),
    )
except hazelcast.errors.HazelcastError as e:
    print("refused:", e)
    sys.exit(1)
m = client.get_map("by-token").blocking()
m.set("k", 1)
assert m.get("k") == 1
client.shutdown()
print("let in")
