'use strict';
// Uses maps as an application does, and ends with code 1 at the first wrong result.
//   node use.js CLUSTER ADDRESS,ADDRESS,...
const { spawn } = require('child_process');
const Long = require('long');
const { Aggregators, Client, HazelcastJsonValue, Predicates } = require('hazelcast-client');
const { same, fails, within, sleep } = require('./check');

const [cluster, addresses, role] = process.argv.slice(2);

const connect = (more) => Client.newHazelcastClient({
    clusterName: cluster,
    network: { clusterMembers: addresses.split(',') },
    properties: { 'hazelcast.logging.level': 'ERROR' },
    ...more,
});

const json = (v) => new HazelcastJsonValue(JSON.stringify(v));
const sorted = (list) => [...list].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
const sortedPairs = (list) => [...list].sort((a, b) => (a[0] < b[0] ? -1 : 1));
const range = (n) => [...Array(n).keys()];

// hold is what runs in a process of its own, to be killed: it locks and waits.
async function hold() {
    const map = await (await connect()).getMap('node-orphans');
    for (const i of range(12)) {
        await map.lock(`k${i}`);
    }
    console.log('held');
    await sleep(120000);
}

// holder starts that process, and returns it when it has its locks.
function holder() {
    const child = spawn(process.execPath, [__filename, cluster, addresses, 'hold'], { stdio: ['ignore', 'pipe', 'inherit'] });
    return new Promise((done, failed) => {
        child.stdout.once('data', () => done(child));
        child.once('exit', (code) => failed(new Error(`the holder of locks ended with ${code}`)));
    });
}

async function singles(client) {
    const m = await client.getMap('node-singles');
    same('get of an absent key', await m.get('a'), null);
    same('put of a new key', await m.put('a', 'one'), null);
    same('put again', await m.put('a', 'two'), 'one');
    same('get', await m.get('a'), 'two');
    same('set', await m.set('a', 'three'), undefined);
    same('containsKey', await m.containsKey('a'), true);
    same('containsKey of an absent one', await m.containsKey('b'), false);
    same('containsValue', await m.containsValue('three'), true);
    same('containsValue of an old value', await m.containsValue('two'), false);
    same('putIfAbsent of a present key', await m.putIfAbsent('a', 'x'), 'three');
    same('putIfAbsent of an absent key', await m.putIfAbsent('b', 'x'), null);
    same('replace', await m.replace('b', 'y'), 'x');
    same('replace of an absent key', await m.replace('c', 'y'), null);
    same('replaceIfSame of another value', await m.replaceIfSame('b', 'x', 'z'), false);
    same('replaceIfSame', await m.replaceIfSame('b', 'y', 'z'), true);
    same('remove of another value', await m.remove('b', 'y'), false);
    same('remove of the value', await m.remove('b', 'z'), true);
    same('remove', await m.remove('a'), 'three');
    same('remove again', await m.remove('a'), null);
    same('isEmpty', await m.isEmpty(), true);
    same('tryPut', await m.tryPut('t', 1, 1000), true);
    same('tryRemove', await m.tryRemove('t', 1000), true);
    same('evict of an absent key', await m.evict('t'), false);
    await m.delete('nothing');
    same('size', await m.size(), 0);
}

async function types(client) {
    const m = await client.getMap('node-types');
    const values = {
        text: 'Grüße, 世界 🌍', empty: '', number: 1.5, negative: -0.25, yes: true, no: false, long: Long.fromString('9007199254740993'),
        bytes: Buffer.from([0, 1, 2, 255]), strings: ['a', 'b'], numbers: [1, 2.5], big: BigInt('123456789012345678901234567890'),
        date: new Date(Date.UTC(2024, 1, 29, 12)), object: { a: [1, { b: null }] }, large: 'x'.repeat(1 << 20),
    };
    for (const [key, value] of Object.entries(values)) {
        await m.put(key, value);
        same(`a value of the kind ${key}`, await m.get(key), value);
    }
    for (const key of [1.5, true, Long.fromNumber(7), 'text', Buffer.from([1, 2])]) {
        await m.put(key, 'here');
        same(`a key ${key}`, await m.get(key), 'here');
    }
    await m.put('json', json({ c: [1] }));
    same('a JSON value', await m.get('json'), { c: [1] });
    const text = json({ b: 1, a: 2 }); // C140: what was read can always be given back
    await m.put('same', text);
    for (const i of range(100)) {
        const next = json({ b: 1, a: 2, i });
        same('replaceIfSame of what was read', await m.replaceIfSame('same', await m.get('same'), next), true);
    }
}

async function bulk(client) {
    const m = await client.getMap('node-bulk');
    await m.putAll(range(500).map((i) => [`k${i}`, i]));
    same('size after putAll', await m.size(), 500);
    same('getAll', sortedPairs(await m.getAll(range(500).map((i) => `k${i}`))), sortedPairs(range(500).map((i) => [`k${i}`, i])));
    same('C139: getAll of absent and repeated keys', sortedPairs(await m.getAll(['k1', 'x', 'k2', 'k1'])), [['k1', 1], ['k2', 2]]);
    same('C139: getAll of absent keys', await m.getAll(['x', 'y']), []);
    same('C139: getAll of nothing', await m.getAll([]), []);
    same('C141: asking adds nothing', await m.size(), 500);
    await m.setAll([['k0', 7], ['more', 8]]);
    same('setAll', [await m.get('k0'), await m.get('more')], [7, 8]);
    same('keySet', (await m.keySet()).length, 501);
    same('values', (await m.values()).size(), 501);
    same('entrySet', (await m.entrySet()).length, 501);
    await m.clear();
    same('size after clear', await m.size(), 0);
}

async function people(client) {
    const m = await client.getMap('node-people');
    await m.putAll(range(100).map((i) => [`p${i}`, json({ name: `n${i}`, age: i, city: ['Oslo', 'Rome'][i % 2], tags: [`t${i % 10}`], score: i / 2 })]));
    return m;
}

async function predicates(client) {
    const m = await people(client);
    const p = Predicates;
    const found = async (what, predicate, want) => {
        const ages = (await m.valuesWithPredicate(predicate)).toArray().map((v) => v.age);
        same(`values: ${what}`, ages.sort((a, b) => a - b), want);
        same(`keys: ${what}`, sorted(await m.keySetWithPredicate(predicate)), sorted(want.map((i) => `p${i}`)));
        same(`entries: ${what}`, (await m.entrySetWithPredicate(predicate)).length, want.length);
    };
    const ages = range(100);
    for (const index of ['none', 'sorted']) {
        await found(`equal, ${index}`, p.equal('age', 42), [42]);
        await found(`notEqual, ${index}`, p.notEqual('age', 42), ages.filter((i) => i !== 42));
        await found(`greaterThan, ${index}`, p.greaterThan('age', 96), [97, 98, 99]);
        await found(`greaterEqual, ${index}`, p.greaterEqual('age', 97), [97, 98, 99]);
        await found(`lessThan, ${index}`, p.lessThan('age', 2), [0, 1]);
        await found(`lessEqual, ${index}`, p.lessEqual('age', 2), [0, 1, 2]);
        await found(`between, ${index}`, p.between('age', 10, 12), [10, 11, 12]);
        await found(`in, ${index}`, p.inPredicate('age', 1, 50, 1000), [1, 50]);
        if (index === 'none') {
            await m.addIndex({ type: 'SORTED', attributes: ['age'] });
        }
    }
    await found('like', p.like('name', 'n1_'), range(10).map((i) => 10 + i));
    await found('ilike', p.ilike('name', 'N9%'), [9].concat(range(10).map((i) => 90 + i)));
    await found('regex', p.regex('name', 'n[12]'), [1, 2]);
    await found('and', p.and(p.greaterThan('age', 90), p.equal('city', 'Oslo')), [92, 94, 96, 98]);
    await found('or', p.or(p.equal('age', 1), p.equal('age', 3)), [1, 3]);
    await found('not', p.not(p.greaterThan('age', 0)), [0]);
    await found('sql', p.sql("age BETWEEN 20 AND 30 AND city = 'Rome'"), [21, 23, 25, 27, 29]);
    await found('key', p.equal('__key', 'p7'), [7]);
    await found('elements', p.equal('tags[0]', 't3'), ages.filter((i) => i % 10 === 3));
    await found('everything', p.alwaysTrue(), ages);
    await found('nothing', p.alwaysFalse(), []);
    await fails('a text that is no predicate', /position 6/, () => m.valuesWithPredicate(p.sql('age >')));
    await m.removeAll(p.lessThan('age', 90));
    same('size after removeAll', await m.size(), 10);
}

async function paging(client) {
    const m = await client.getMap('node-pages');
    await m.putAll(range(25).map((i) => [i, i * 10]));
    const page = Predicates.paging(Predicates.greaterEqual('this', 20), 10);
    const pages = [range(10).map((i) => i + 2), range(10).map((i) => i + 12), [22, 23, 24], []];
    for (const want of pages) {
        same(`keys of page ${page.getPage()}`, await m.keySetWithPredicate(page), want);
        page.nextPage();
    }
    page.setPage(1);
    same('values of page 1', (await m.valuesWithPredicate(page)).toArray(), pages[1].map((i) => i * 10));
    page.previousPage();
    same('entries of page 0', await m.entrySetWithPredicate(page), pages[0].map((i) => [i, i * 10]));
}

async function aggregates(client) {
    const m = await client.getMap('node-aggregates');
    await m.putAll(range(10).map((i) => [`a${i}`, json({ n: i, even: i % 2 === 0, f: i / 4 })]));
    const big = Predicates.greaterEqual('n', 5);
    same('count', (await m.aggregate(Aggregators.count())).toNumber(), 10);
    same('count where', (await m.aggregateWithPredicate(Aggregators.count(), big)).toNumber(), 5);
    same('count of nothing', (await m.aggregateWithPredicate(Aggregators.count(), Predicates.alwaysFalse())).toNumber(), 0);
    same('fixedPointSum', (await m.aggregate(Aggregators.fixedPointSum('n'))).toNumber(), 45);
    same('floatingPointSum', await m.aggregate(Aggregators.floatingPointSum('f')), 11.25);
    same('numberAvg', await m.aggregateWithPredicate(Aggregators.numberAvg('n'), big), 7);
    same('max', Number(await m.aggregate(Aggregators.max('n'))), 9);
    same('min', Number(await m.aggregate(Aggregators.min('n'))), 0);
    const longs = await client.getMap('node-longs');
    await longs.putAll(range(4).map((i) => [i, Long.fromNumber(i)]));
    same('longSum', (await longs.aggregate(Aggregators.longSum())).toNumber(), 6);
    same('distinct', sorted([...await longs.aggregate(Aggregators.distinct())].map(Number)), range(4)); // it does not send its path
    same('longAvg', await longs.aggregate(Aggregators.longAvg()), 1.5);
}

async function locks(client) {
    const other = await connect();
    const m = await client.getMap('node-locks');
    const theirs = await other.getMap('node-locks');
    await m.lock('k');
    same('isLocked', await theirs.isLocked('k'), true);
    same('tryLock of a locked key', await theirs.tryLock('k'), false);
    same('tryLock with time', await theirs.tryLock('k', 100), false);
    same('tryPut on a locked key', await theirs.tryPut('k', 1, 100), false);
    await fails('unlock by another', /lock/, () => theirs.unlock('k'));
    same('put by the owner', await m.put('k', 1), null);
    const waiting = theirs.lock('k');
    await m.lock('k'); // re-entrant
    await m.unlock('k');
    same('still locked after one of two unlocks', await theirs.tryLock('k'), false);
    await m.unlock('k');
    await waiting;
    same('tryLock of what the waiter has', await m.tryLock('k'), false);
    await m.forceUnlock('k');
    same('isLocked after forceUnlock', await m.isLocked('k'), false);
    same('C137: tryLock without a lease', await m.tryLock('t'), true);
    await m.lock('leased', 400);
    same('a lease runs', await theirs.tryLock('leased'), false);
    same('a lease ends', await theirs.tryLock('leased', 5000), true);
    same('C137: it is held', await theirs.tryLock('t'), false);
    await other.shutdown();
}

async function life(client) {
    const m = await client.getMap('node-life');
    await m.put('short', 1, 1500);
    await m.put('idle', 1, 0, 2000); // ends at a whole second: at least one from now
    await m.put('long', 1, 60000);
    await m.put('ever', 1);
    same('before the end', (await m.getAll(['short', 'idle', 'long', 'ever'])).length, 4);
    const view = await m.getEntryView('long');
    same('ttl of the view', view.ttl.toNumber(), 60000);
    same('value of the view', view.value, 1);
    same('view of nothing', await m.getEntryView('nothing'), null);
    same('setTtl', await m.setTtl('ever', 500), true);
    same('setTtl of nothing', await m.setTtl('nothing', 500), false);
    await within(8000, 'what is left when times are over', ['long'], () => m.keySet());
}

async function listeners(client) {
    const m = await client.getMap('node-heard');
    const heard = [];
    const hear = (who) => Object.fromEntries(['added', 'updated', 'removed', 'evicted', 'expired'].map((type) =>
        [type, (e) => heard.push([who, type, e.key, e.value, e.oldValue])]));
    const cleared = [];
    await m.addEntryListener({ mapCleared: (e) => cleared.push(e.numberOfAffectedEntries) });
    await m.addEntryListener(hear('all'), undefined, true);
    const forgotten = await m.addEntryListener(hear('forgotten'), 'b', true);
    for (const key of ['a', 'b', 'c']) { // C145
        await m.addEntryListener(hear(key), key, true);
    }
    await m.addEntryListenerWithPredicate(hear('large'), Predicates.greaterThan('this', 10), undefined, true);
    await m.addEntryListener(hear('bare'), 'b', false);
    same('removeEntryListener', await m.removeEntryListener(forgotten), true);
    await m.put('b', 1);
    await m.put('b', 11);
    await m.remove('b');
    await m.put('e', 2);
    await m.evict('e');
    await m.put('t', 3, 300);
    const want = [
        ['all', 'added', 'b', 1, null], ['all', 'updated', 'b', 11, 1], ['all', 'removed', 'b', null, 11],
        ['all', 'added', 'e', 2, null], ['all', 'evicted', 'e', null, 2],
        ['all', 'added', 't', 3, null], ['all', 'expired', 't', null, 3],
        ['b', 'added', 'b', 1, null], ['b', 'updated', 'b', 11, 1], ['b', 'removed', 'b', null, 11],
        ['bare', 'added', 'b', null, null], ['bare', 'updated', 'b', null, null], ['bare', 'removed', 'b', null, null],
    ];
    const others = () => heard.filter(([who]) => who !== 'large');
    await within(10000, 'events', sorted(want.map(String)), () => sorted(others().map(String)));
    const ofB = (list) => list.filter(([who, , key]) => who === 'all' && key === 'b').map(([, type]) => type);
    same('order of the events of one key', ofB(heard), ['added', 'updated', 'removed']);
    same('events of values that are not large', heard.filter(([who, , , value, old]) => who === 'large' && !(value > 10 || old > 10)), []);
    await m.put('x', 1);
    await m.clear();
    await within(10000, 'mapCleared', true, () => cleared.length > 0);
}

async function nearCache(client) {
    const near = await connect({ nearCaches: { 'node-near': { invalidateOnChange: true } } });
    const cached = await near.getMap('node-near');
    const plain = await client.getMap('node-near');
    await plain.putAll(range(50).map((i) => [`k${i}`, i]));
    for (const round of [0, 1]) {
        for (const i of range(50)) {
            same(`near get, round ${round}`, await cached.get(`k${i}`), i);
        }
    }
    await plain.putAll(range(50).map((i) => [`k${i}`, i + 1000]));
    for (const i of range(50)) {
        await within(5000, 'a value that was changed elsewhere', i + 1000, () => cached.get(`k${i}`));
    }
    await cached.put('k0', 'mine');
    same('what was put here', await cached.get('k0'), 'mine');
    same('what was put here, elsewhere', await plain.get('k0'), 'mine');
    await plain.clear();
    await within(5000, 'what was cleared elsewhere', null, () => cached.get('k1'));
    await near.shutdown();
}

async function engineMaps(client) {
    const m = await client.getMap('engine_jobs');
    await m.size();
    await fails('a put to a map of the engine', /belongs to the job engine/, () => m.put('k', 'v'));
    await fails('a lock in a map of the engine', /belongs to the job engine/, () => m.lock('k'));
}

// rest reads what was put over HTTP, and puts what is going to be read there.
async function rest(client) {
    const from = await client.getMap('from-rest');
    same('text of REST', await from.get('text'), 'héllo');
    same('JSON of REST', await from.get('json'), { a: [1, null] });
    same('a number of REST', await from.get('number'), 42);
    same('bytes of REST', await from.get('bytes'), Buffer.from([0, 1, 255]));
    await (await client.getMap('node-to-rest')).putAll([
        ['text', 'héllo'], ['double', 1.5], ['yes', true], ['whole', Long.fromString('9007199254740993')], ['json', json({ a: [1, null] })],
        ['bytes', Buffer.from([0, 1, 255])], ['foreign', new Date(0)],
    ]);
}

async function afterTheKill(client) {
    const m = await client.getMap('node-orphans');
    for (const i of range(12)) { // at once: one client has one thread
        same(`lock ${i} of a client that was killed`, await m.tryLock(`k${i}`, 20000), true);
    }
}

async function main() {
    if (role === 'hold') {
        return hold();
    }
    const [client, victim] = await Promise.all([connect(), holder()]);
    const orphans = await client.getMap('node-orphans');
    same('tryLock while its owner lives', await orphans.tryLock('k0'), false);
    victim.removeAllListeners('exit');
    victim.kill('SIGKILL');
    for (const step of [singles, types, bulk, predicates, paging, aggregates, locks, life, listeners, nearCache, engineMaps, rest, afterTheKill]) {
        const began = Date.now();
        await step(client);
        console.log(`ok ${step.name} ${Date.now() - began} ms`);
    }
    await client.shutdown();
}

main().then(() => {
    if (role !== 'hold') {
        console.log('all ok');
    }
    process.exit(0);
}, (e) => {
    console.error(`WRONG ${e.stack}`);
    process.exit(1);
});
