'use strict';
// What the checks need: comparing strictly, waiting for a bounded time, and ending the process at the first wrong result.
const { isDeepStrictEqual, inspect } = require('util');

class Wrong extends Error {}

function same(what, got, want) {
    if (!isDeepStrictEqual(got, want)) {
        throw new Wrong(`${what}: want ${inspect(want)}, got ${inspect(got)}`);
    }
}

// fails expects an error whose text is like that.
async function fails(what, like, call) {
    let result;
    try {
        result = await call();
    } catch (e) {
        if (!like.test(e.message)) {
            throw new Wrong(`${what}: want an error like ${like}, got ${e.stack}`);
        }
        return;
    }
    throw new Wrong(`${what}: want an error like ${like}, got the result ${inspect(result)}`);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// within asks again and again until the answer is the wanted one, for at most so many milliseconds.
async function within(ms, what, want, ask) {
    for (const end = Date.now() + ms; ; await sleep(20)) {
        const got = await ask();
        if (isDeepStrictEqual(got, want)) {
            return;
        }
        if (Date.now() > end) {
            throw new Wrong(`${what}, after ${ms} ms: want ${inspect(want)}, got ${inspect(got)}`);
        }
    }
}

module.exports = { same, fails, within, sleep };
