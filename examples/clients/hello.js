'use strict';
const { Client, HazelcastJsonValue, Predicates } = require('hazelcast-client');

(async () => {
    const address = process.argv[2] || '127.0.0.1:5701';
    const client = await Client.newHazelcastClient({ clusterName: 'dev', network: { clusterMembers: [address] }, properties: { 'hazelcast.logging.level': 'ERROR' } });
    const people = await client.getMap('people');
    await people.set('ann', new HazelcastJsonValue('{"age": 41, "city": "Oslo"}'));
    console.log(await people.get('ann'), await people.keySetWithPredicate(Predicates.greaterThan('age', 40)));
    await client.shutdown();
})();
