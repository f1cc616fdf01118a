import static com.hazelcast.query.Predicates.alwaysFalse;
import static com.hazelcast.query.Predicates.alwaysTrue;
import static com.hazelcast.query.Predicates.and;
import static com.hazelcast.query.Predicates.between;
import static com.hazelcast.query.Predicates.equal;
import static com.hazelcast.query.Predicates.greaterEqual;
import static com.hazelcast.query.Predicates.greaterThan;
import static com.hazelcast.query.Predicates.ilike;
import static com.hazelcast.query.Predicates.in;
import static com.hazelcast.query.Predicates.lessEqual;
import static com.hazelcast.query.Predicates.lessThan;
import static com.hazelcast.query.Predicates.like;
import static com.hazelcast.query.Predicates.not;
import static com.hazelcast.query.Predicates.notEqual;
import static com.hazelcast.query.Predicates.or;
import static com.hazelcast.query.Predicates.regex;
import static com.hazelcast.query.Predicates.sql;

import com.hazelcast.aggregation.Aggregators;
import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.client.impl.proxy.ClientMapProxy;
import com.hazelcast.config.IndexType;
import com.hazelcast.config.NearCacheConfig;
import com.hazelcast.core.EntryEvent;
import com.hazelcast.core.EntryView;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastJsonValue;
import com.hazelcast.map.IMap;
import com.hazelcast.map.MapEvent;
import com.hazelcast.map.listener.EntryAddedListener;
import com.hazelcast.map.listener.EntryEvictedListener;
import com.hazelcast.map.listener.EntryExpiredListener;
import com.hazelcast.map.listener.EntryRemovedListener;
import com.hazelcast.map.listener.EntryUpdatedListener;
import com.hazelcast.map.listener.MapClearedListener;
import com.hazelcast.projection.Projections;
import com.hazelcast.query.PagingPredicate;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.PredicateBuilder;
import com.hazelcast.query.Predicates;
import com.hazelcast.query.QueryException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.security.AccessControlException;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Uses maps as an application does, and ends with code 1 at the first wrong result: java Use CLUSTER ADDRESS,ADDRESS,... */
public final class Use {
    private static String cluster;
    private static String addresses;

    private interface Step {
        void run(HazelcastInstance client) throws Exception;
    }

    private static ClientConfig config() {
        ClientConfig c = new ClientConfig().setClusterName(cluster).setProperty("hazelcast.logging.type", "none");
        c.getNetworkConfig().setAddresses(Arrays.asList(addresses.split(",")));
        return c;
    }

    private static HazelcastInstance connect() {
        return HazelcastClient.newHazelcastClient(config());
    }

    private static List<Integer> range(int from, int to) {
        return IntStream.range(from, to).boxed().collect(Collectors.toList());
    }

    private static <T extends Comparable<T>> List<T> sorted(Collection<T> list) {
        return new ArrayList<>(list.stream().sorted().toList());
    }

    private static HazelcastJsonValue person(int i) {
        return new HazelcastJsonValue("{\"name\":\"n" + i + "\",\"age\":" + i + ",\"city\":\"" + (i % 2 == 0 ? "Oslo" : "Rome")
            + "\",\"even\":" + (i % 2 == 0) + ",\"tags\":[\"t" + i % 10 + "\"]}");
    }

    /** What runs in a process of its own, to be killed: it locks and waits. */
    private static void hold() throws Exception {
        IMap<String, Integer> m = connect().getMap("java-orphans");
        for (int i = 0; i < 12; i++) {
            m.lock("k" + i);
        }
        System.out.println("held");
        Thread.sleep(120_000);
    }

    /** Starts that process; it has its locks when it has printed a line. */
    private static Process holder() throws Exception {
        return new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-XX:TieredStopAtLevel=1", "-cp",
            System.getProperty("java.class.path"), "Use", cluster, addresses, "hold").redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static void singles(HazelcastInstance client) throws Exception {
        IMap<String, String> m = client.getMap("java-singles");
        Check.same("get of an absent key", m.get("a"), null);
        Check.same("put of a new key", m.put("a", "one"), null);
        Check.same("put again", m.put("a", "two"), "one");
        Check.same("get", m.get("a"), "two");
        m.set("a", "three");
        Check.same("containsKey", m.containsKey("a"), true);
        Check.same("containsKey of an absent one", m.containsKey("b"), false);
        Check.same("containsValue", m.containsValue("three"), true);
        Check.same("containsValue of an old value", m.containsValue("two"), false);
        Check.same("putIfAbsent of a present key", m.putIfAbsent("a", "x"), "three");
        Check.same("putIfAbsent of an absent key", m.putIfAbsent("b", "x"), null);
        Check.same("replace", m.replace("b", "y"), "x");
        Check.same("replace of an absent key", m.replace("c", "y"), null);
        Check.same("replace of another value", m.replace("b", "x", "z"), false);
        Check.same("replace of the value", m.replace("b", "y", "z"), true);
        Check.same("remove of another value", m.remove("b", "y"), false);
        Check.same("remove of the value", m.remove("b", "z"), true);
        Check.same("remove", m.remove("a"), "three");
        Check.same("remove again", m.remove("a"), null);
        Check.same("isEmpty", m.isEmpty(), true);
        Check.same("tryPut", m.tryPut("t", "1", 1, TimeUnit.SECONDS), true);
        Check.same("tryRemove", m.tryRemove("t", 1, TimeUnit.SECONDS), true);
        Check.same("evict of an absent key", m.evict("t"), false);
        m.delete("nothing");
        Check.same("putAsync", m.putAsync("async", "1").toCompletableFuture().get(), null);
        Check.same("getAsync", m.getAsync("async").toCompletableFuture().get(), "1");
        Check.same("removeAsync", m.removeAsync("async").toCompletableFuture().get(), "1");
        Check.same("size", m.size(), 0);
    }

    /** A value that only Java reads. */
    public record Point(int x, int y) implements Serializable {
    }

    private static void types(HazelcastInstance client) {
        IMap<Object, Object> m = client.getMap("java-types");
        List<Object> values = new ArrayList<>(List.of("Grüße, 世界 🌍", "", (byte) -1, 'c', (short) -2, -3, -4L, 1.5f, -2.5, true, false,
            new byte[] {0, 1, -1}, new int[] {1, 2}, new long[] {3}, new double[] {0.5}, new String[] {"a", "b"}, new boolean[] {true},
            new BigInteger("123456789012345678901234567890"), new BigDecimal("-1.25"), UUID.randomUUID(), LocalDate.of(2024, 2, 29),
            OffsetDateTime.parse("2024-02-29T01:02:03+01:00"), new HazelcastJsonValue("{\"a\":[1,null]}"), new Point(1, 2),
            new ArrayList<>(List.of(1, "two")), new HashMap<>(Map.of("k", 1)), "x".repeat(1 << 20)));
        for (Object v : values) {
            m.put("v", v);
            Check.same("a value of the kind " + v.getClass(), m.get("v"), v);
        }
        for (Object k : List.of(1, 1L, 1.5, true, "text", 'c', UUID.randomUUID(), new Point(3, 4), new BigInteger("7"))) {
            m.put(k, "here");
            Check.same("a key of the kind " + k.getClass(), m.get(k), "here");
        }
        Check.same("keys of two types are two keys", m.remove(1), "here");
        Check.same("keys of two types are two keys, the other", m.get(1L), "here");
        m.put("same", person(1)); // C140: what was read can always be given back
        for (int i = 0; i < 100; i++) {
            Check.same("replace of what was read", m.replace("same", m.get("same"), person(i)), true);
        }
    }

    private static void bulk(HazelcastInstance client) {
        IMap<String, Integer> m = client.getMap("java-bulk");
        Map<String, Integer> all = new TreeMap<>();
        for (int i = 0; i < 500; i++) {
            all.put("k" + i, i);
        }
        m.putAll(all);
        Check.same("size after putAll", m.size(), 500);
        Check.same("getAll", new TreeMap<>(m.getAll(all.keySet())), all);
        Check.same("C139: getAll of absent keys among others", m.getAll(Set.of("k1", "x", "k2")), Map.of("k1", 1, "k2", 2));
        Check.same("C139: getAll of absent keys", m.getAll(Set.of("x", "y")), Map.of());
        Check.same("C139: getAll of nothing", m.getAll(Set.of()), Map.of());
        Check.same("C141: asking adds nothing", m.size(), 500);
        m.setAll(Map.of("k0", 7, "more", 8));
        Check.same("setAll", List.of(m.get("k0"), m.get("more")), List.of(7, 8));
        Check.same("keySet", m.keySet().size(), 501);
        Check.same("values", m.values().size(), 501);
        Check.same("entrySet", m.entrySet().size(), 501);
        m.clear();
        Check.same("size after clear", m.size(), 0);
    }

    private static void found(IMap<String, HazelcastJsonValue> m, String what, Predicate<String, HazelcastJsonValue> where, List<Integer> want) {
        List<Integer> ages = m.values(where).stream().map(v -> Integer.parseInt(v.getValue().replaceAll(".*\"age\":(\\d+).*", "$1"))).toList();
        Check.same("values: " + what, sorted(ages), want);
        Check.same("keys: " + what, sorted(m.keySet(where)), sorted(want.stream().map(i -> "p" + i).toList()));
        Check.same("entries: " + what, m.entrySet(where).size(), want.size());
    }

    private static List<Integer> ages(java.util.function.IntPredicate which) {
        return range(0, 100).stream().filter(which::test).collect(Collectors.toList());
    }

    private enum Town { Oslo, Rome }

    private static void predicates(HazelcastInstance client) {
        IMap<String, HazelcastJsonValue> m = client.getMap("java-people");
        m.putAll(range(0, 100).stream().collect(Collectors.toMap(i -> "p" + i, Use::person)));
        for (String index : List.of("none", "hash", "sorted")) {
            found(m, "equal, " + index, equal("age", 42), List.of(42));
            found(m, "notEqual, " + index, notEqual("age", 42), ages(i -> i != 42));
            found(m, "greaterThan, " + index, greaterThan("age", 96), List.of(97, 98, 99));
            found(m, "greaterEqual, " + index, greaterEqual("age", 97), List.of(97, 98, 99));
            found(m, "lessThan, " + index, lessThan("age", 2), List.of(0, 1));
            found(m, "lessEqual, " + index, lessEqual("age", 2), List.of(0, 1, 2));
            found(m, "between, " + index, between("age", 10, 12), List.of(10, 11, 12));
            found(m, "in, " + index, in("age", 1, 50, 1000), List.of(1, 50));
            if (!index.equals("sorted")) {
                m.addIndex(index.equals("none") ? IndexType.HASH : IndexType.SORTED, "age");
            }
        }
        found(m, "like", like("name", "n1_"), ages(i -> i >= 10 && i < 20));
        found(m, "ilike", ilike("name", "N9%"), ages(i -> i == 9 || i >= 90));
        found(m, "regex", regex("name", "n[12]"), List.of(1, 2));
        found(m, "and", and(greaterThan("age", 90), equal("city", "Oslo")), List.of(92, 94, 96, 98));
        found(m, "or", or(equal("age", 1), equal("age", 3)), List.of(1, 3));
        found(m, "not", not(greaterThan("age", 0)), List.of(0));
        found(m, "sql", sql("age BETWEEN 20 AND 30 AND city = 'Rome'"), List.of(21, 23, 25, 27, 29));
        PredicateBuilder.EntryObject e = Predicates.newPredicateBuilder().getEntryObject();
        found(m, "builder", e.get("age").lessThan(5).and(e.isNot("even")).or(e.key().in("p2", "p9")), List.of(1, 2, 3, 9));
        found(m, "one partition", Predicates.partitionPredicate("p7", between("age", 7, 8)), List.of(7));
        found(m, "two partitions", Predicates.multiPartitionPredicate(new HashSet<>(List.of("p7", "p9")), between("age", 7, 9)), List.of(7, 9));
        Check.same("count in one partition", m.aggregate(Aggregators.count(), Predicates.partitionPredicate("p7", between("age", 7, 8))), 1L);
        found(m, "a constant", and(equal("city", Town.Oslo), lessThan("age", 3)), List.of(0, 2));
        found(m, "key", equal("__key", "p7"), List.of(7));
        found(m, "elements", equal("tags[0]", "t3"), ages(i -> i % 10 == 3));
        found(m, "everything", alwaysTrue(), ages(i -> true));
        found(m, "nothing", alwaysFalse(), List.of());
        Check.fails("an attribute that is no path", QueryException.class, "", () -> m.values(equal("a..b", 1)));
        m.removeAll(lessThan("age", 90));
        Check.same("size after removeAll", m.size(), 10);
    }

    private static void paging(HazelcastInstance client) {
        IMap<Integer, Integer> m = client.getMap("java-pages");
        m.putAll(range(0, 25).stream().collect(Collectors.toMap(i -> i, i -> i * 10)));
        PagingPredicate<Integer, Integer> page = Predicates.pagingPredicate(greaterEqual("this", 20), 10);
        List<List<Integer>> pages = List.of(range(2, 12), range(12, 22), range(22, 25), List.of());
        for (List<Integer> want : pages) {
            Check.same("keys of page " + page.getPage(), new ArrayList<>(m.keySet(page)), want);
            page.nextPage();
        }
        page.setPage(1);
        Check.same("values of page 1", new ArrayList<>(m.values(page)), pages.get(1).stream().map(i -> i * 10).toList());
        page.previousPage();
        Check.same("entries of page 0", m.entrySet(page).stream().map(Map.Entry::getKey).toList(), pages.get(0));
    }

    /** Goes through all partitions in small pages, as map.iterator(...) of Java's client does. */
    private static void iteration(HazelcastInstance client) {
        IMap<String, HazelcastJsonValue> m = client.getMap("java-iteration");
        m.putAll(range(0, 300).stream().collect(Collectors.toMap(i -> "p" + i, Use::person)));
        Set<String> keys = new HashSet<>();
        for (Map.Entry<String, HazelcastJsonValue> e : m) {
            Check.same("a key that comes once", keys.add(e.getKey()), true);
        }
        Check.same("keys of all pages", keys.size(), 300);
        ClientMapProxy<String, HazelcastJsonValue> pages = (ClientMapProxy<String, HazelcastJsonValue>) m;
        List<Object> ages = new ArrayList<>();
        List<Object[]> pairs = new ArrayList<>();
        List<Map.Entry<String, HazelcastJsonValue>> entries = new ArrayList<>();
        int partitions = client.getPartitionService().getPartitions().size();
        for (int p = 0; p < partitions; p++) {
            pages.<Object>iterator(2, p, Projections.singleAttribute("age"), lessThan("age", 200)).forEachRemaining(ages::add);
            pages.<Object[]>iterator(1, p, Projections.multiAttribute("age", "nothing"), greaterThan("age", 289)).forEachRemaining(pairs::add);
            pages.<Map.Entry<String, HazelcastJsonValue>>iterator(3, p, Projections.identity(), equal("age", 7)).forEachRemaining(entries::add);
        }
        Check.same("projected ages", ages.stream().map(a -> ((Number) a).intValue()).sorted().toList(), range(0, 200));
        Check.same("projected pairs", pairs.stream().map(a -> ((Number) a[0]).intValue() + " " + a[1]).sorted().toList(),
                range(290, 300).stream().map(i -> i + " null").toList());
        Check.same("whole entries", entries.stream().map(Map.Entry::getKey).toList(), List.of("p7"));
    }

    private static void aggregates(HazelcastInstance client) {
        IMap<String, HazelcastJsonValue> m = client.getMap("java-aggregates");
        m.putAll(range(0, 10).stream().collect(Collectors.toMap(i -> "a" + i, Use::person)));
        Predicate<String, HazelcastJsonValue> big = greaterEqual("age", 5);
        Check.same("count", m.aggregate(Aggregators.count()), 10L);
        Check.same("count where", m.aggregate(Aggregators.count(), big), 5L);
        Check.same("count of nothing", m.aggregate(Aggregators.count(), alwaysFalse()), 0L);
        IMap<Integer, Number> numbers = client.getMap("java-numbers");
        numbers.putAll(Map.of(1, new BigDecimal("0.10"), 2, new BigDecimal("0.20"), 3, new BigInteger("100000000000000000000")));
        Check.same("bigDecimalSum", numbers.aggregate(Aggregators.bigDecimalSum()), new BigDecimal("100000000000000000000.30"));
        Check.same("bigIntegerSum", numbers.aggregate(Aggregators.bigIntegerSum(), greaterThan("this", 1)),
            new BigInteger("100000000000000000000"));
        Check.same("bigDecimalSum of nothing", numbers.aggregate(Aggregators.bigDecimalSum(), alwaysFalse()), BigDecimal.ZERO);
        Check.same("max", numbers.aggregate(Aggregators.<Map.Entry<Integer, Number>, BigDecimal>comparableMax(), lessThan("this", 1)),
            new BigDecimal("0.20"));
        Check.same("fixedPointSum", m.aggregate(Aggregators.fixedPointSum("age")), 45L);
        Check.same("floatingPointSum", m.aggregate(Aggregators.floatingPointSum("age"), big), 35.0);
        Check.same("numberAvg", m.aggregate(Aggregators.numberAvg("age"), big), 7.0);
        Check.same("distinct", new TreeSet<>(m.aggregate(Aggregators.<Map.Entry<String, HazelcastJsonValue>, Boolean>distinct("even"))),
            new TreeSet<>(Set.of(false, true)));
        Check.same("projection", sorted(m.project(Projections.<Map.Entry<String, HazelcastJsonValue>, String>singleAttribute("name"), big)),
            List.of("n5", "n6", "n7", "n8", "n9"));
        List<String> rows = m.project(Projections.<Map.Entry<String, HazelcastJsonValue>>multiAttribute("name", "even"), big).stream()
            .map(Arrays::toString).toList();
        Check.same("projection of two", sorted(rows), List.of("[n5, false]", "[n6, true]", "[n7, false]", "[n8, true]", "[n9, false]"));
        IMap<Integer, Integer> ints = client.getMap("java-ints");
        ints.putAll(range(0, 4).stream().collect(Collectors.toMap(i -> i, i -> i)));
        Check.same("integerSum", ints.aggregate(Aggregators.integerSum()), 6L);
        Check.same("integerAvg", ints.aggregate(Aggregators.integerAvg()), 1.5);
        Check.same("integerMax", ints.aggregate(Aggregators.integerMax()), 3);
        Check.same("integerMin", ints.aggregate(Aggregators.integerMin()), 0);
        IMap<Integer, Double> doubles = client.getMap("java-doubles");
        doubles.putAll(Map.of(1, 0.25, 2, 0.5));
        Check.same("doubleSum", doubles.aggregate(Aggregators.doubleSum()), 0.75);
        Check.same("doubleAvg", doubles.aggregate(Aggregators.doubleAvg()), 0.375);
    }

    private static void locks(HazelcastInstance client) throws Exception {
        HazelcastInstance other = connect();
        IMap<String, Integer> m = client.getMap("java-locks");
        IMap<String, Integer> theirs = other.getMap("java-locks");
        m.lock("k");
        Check.same("isLocked", theirs.isLocked("k"), true);
        Check.same("tryLock of a locked key", theirs.tryLock("k"), false);
        Check.same("tryLock with time", theirs.tryLock("k", 100, TimeUnit.MILLISECONDS), false);
        Check.same("tryPut on a locked key", theirs.tryPut("k", 1, 100, TimeUnit.MILLISECONDS), false);
        Check.fails("unlock by another", IllegalMonitorStateException.class, "", () -> {
            theirs.unlock("k");
            return null;
        });
        Check.same("put by the owner", m.put("k", 1), null);
        CompletableFuture<Boolean> waiting = CompletableFuture.supplyAsync(() -> {
            theirs.lock("k");
            theirs.unlock("k");
            return true;
        });
        m.lock("k"); // re-entrant
        m.unlock("k");
        Check.same("still locked after one of two unlocks", theirs.tryLock("k"), false);
        m.unlock("k");
        Check.same("a waiter has had the lock", waiting.get(10, TimeUnit.SECONDS), true);
        theirs.lock("k");
        m.forceUnlock("k");
        Check.same("isLocked after forceUnlock", m.isLocked("k"), false);
        Check.same("C137: tryLock without a lease", m.tryLock("t"), true);
        m.lock("leased", 400, TimeUnit.MILLISECONDS);
        Check.same("a lease runs", theirs.tryLock("leased"), false);
        Check.same("a lease ends", theirs.tryLock("leased", 5, TimeUnit.SECONDS), true);
        Check.same("C137: it is held", theirs.tryLock("t"), false);
        Check.same("another thread of this client is somebody else", CompletableFuture.supplyAsync(() -> m.tryLock("t")).get(), false);
        other.shutdown();
    }

    private static void life(HazelcastInstance client) throws Exception {
        IMap<String, Integer> m = client.getMap("java-life");
        m.put("short", 1, 1500, TimeUnit.MILLISECONDS);
        m.put("idle", 1, 0, TimeUnit.SECONDS, 2, TimeUnit.SECONDS); // ends at a whole second: at least one from now
        m.put("long", 1, 60, TimeUnit.SECONDS);
        m.put("ever", 1);
        Check.same("before the end", m.getAll(Set.of("short", "idle", "long", "ever")).size(), 4);
        EntryView<String, Integer> view = m.getEntryView("long");
        Check.same("view", List.of(view.getTtl(), view.getValue(), view.getKey()), List.of(60000L, 1, "long"));
        Check.same("view of nothing", m.getEntryView("nothing"), null);
        Check.same("setTtl", m.setTtl("ever", 500, TimeUnit.MILLISECONDS), true);
        Check.same("setTtl of nothing", m.setTtl("nothing", 500, TimeUnit.MILLISECONDS), false);
        Check.within(8000, "what is left when times are over", Set.of("long"), m::keySet);
    }

    /** Writes down what a listener hears. */
    private record Ear(String who, List<String> heard) implements EntryAddedListener<String, Integer>, EntryUpdatedListener<String, Integer>,
        EntryRemovedListener<String, Integer>, EntryEvictedListener<String, Integer>, EntryExpiredListener<String, Integer> {

        private void note(String type, EntryEvent<String, Integer> e) {
            heard.add(who + " " + type + " " + e.getKey() + " " + e.getValue() + " " + e.getOldValue());
        }

        @Override
        public void entryAdded(EntryEvent<String, Integer> e) {
            note("added", e);
        }

        @Override
        public void entryUpdated(EntryEvent<String, Integer> e) {
            note("updated", e);
        }

        @Override
        public void entryRemoved(EntryEvent<String, Integer> e) {
            note("removed", e);
        }

        @Override
        public void entryEvicted(EntryEvent<String, Integer> e) {
            note("evicted", e);
        }

        @Override
        public void entryExpired(EntryEvent<String, Integer> e) {
            note("expired", e);
        }
    }

    private static void listeners(HazelcastInstance client) throws Exception {
        IMap<String, Integer> m = client.getMap("java-heard");
        List<String> heard = new CopyOnWriteArrayList<>();
        List<MapEvent> cleared = new CopyOnWriteArrayList<>();
        m.addEntryListener((MapClearedListener) cleared::add, false);
        m.addEntryListener(new Ear("all", heard), true);
        UUID forgotten = m.addEntryListener(new Ear("forgotten", heard), "b", true);
        for (String key : List.of("a", "b", "c")) { // C145
            m.addEntryListener(new Ear(key, heard), key, true);
        }
        m.addEntryListener(new Ear("large", heard), greaterThan("this", 10), true);
        m.addEntryListener(new Ear("bare", heard), "b", false);
        Check.same("removeEntryListener", m.removeEntryListener(forgotten), true);
        m.put("b", 1);
        m.put("b", 11);
        m.remove("b");
        m.put("e", 2);
        m.evict("e");
        m.put("t", 3, 300, TimeUnit.MILLISECONDS);
        List<String> ofB = List.of("added b 1 null", "updated b 11 1", "removed b null 11");
        List<String> want = new ArrayList<>(List.of("all added e 2 null", "all evicted e null 2", "all added t 3 null", "all expired t null 3",
            "bare added b null null", "bare updated b null null", "bare removed b null null"));
        ofB.forEach(e -> want.addAll(List.of("all " + e, "b " + e)));
        Check.within(10000, "events", sorted(want), () -> sorted(heard.stream().filter(e -> !e.startsWith("large")).toList()));
        Check.same("order of the events of one key", heard.stream().filter(e -> e.matches("all \\w+ b .*")).toList(),
            ofB.stream().map(e -> "all " + e).toList());
        Check.same("events of values that are not large", heard.stream().filter(e -> e.startsWith("large") && !e.contains("11")).toList(), List.of());
        m.put("x", 1);
        m.clear();
        Check.within(10000, "mapCleared", true, () -> !cleared.isEmpty());
    }

    private static void nearCache(HazelcastInstance client) throws Exception {
        HazelcastInstance near = HazelcastClient.newHazelcastClient(
            config().addNearCacheConfig(new NearCacheConfig("java-near").setInvalidateOnChange(true)));
        IMap<String, Integer> cached = near.getMap("java-near");
        IMap<String, Integer> plain = client.getMap("java-near");
        plain.putAll(range(0, 50).stream().collect(Collectors.toMap(i -> "k" + i, i -> i)));
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 50; i++) {
                Check.same("near get, round " + round, cached.get("k" + i), i);
            }
        }
        Check.same("hits of the near cache", cached.getLocalMapStats().getNearCacheStats().getHits() >= 50, true);
        plain.putAll(range(0, 50).stream().collect(Collectors.toMap(i -> "k" + i, i -> i + 1000)));
        for (int i = 0; i < 50; i++) {
            String key = "k" + i;
            Check.within(5000, "a value that was changed elsewhere", i + 1000, () -> cached.get(key));
        }
        cached.put("k0", -1);
        Check.same("what was put here", cached.get("k0"), -1);
        Check.same("what was put here, elsewhere", plain.get("k0"), -1);
        plain.clear();
        Check.within(5000, "what was cleared elsewhere", null, () -> cached.get("k1"));
        near.shutdown();
    }

    private static void engineMaps(HazelcastInstance client) {
        IMap<String, String> m = client.getMap("engine_jobs");
        m.size();
        Check.fails("a put to a map of the engine", AccessControlException.class, "belongs to the job engine", () -> m.put("k", "v"));
        Check.fails("a lock in a map of the engine", AccessControlException.class, "belongs to the job engine", () -> m.tryLock("k"));
    }

    private static void otherStructures(HazelcastInstance client) {
        Check.fails("a queue", UnsupportedOperationException.class, "only maps", () -> client.getQueue("q").offer(1));
        Check.fails("a topic", UnsupportedOperationException.class, "only maps", () -> client.getTopic("t").getName().concat(fails(client)));
    }

    private static String fails(HazelcastInstance client) {
        client.getTopic("t").publish("x");
        return "";
    }

    /** Reads what was put over HTTP, and puts what is going to be read there. */
    private static void rest(HazelcastInstance client) {
        IMap<String, Object> m = client.getMap("from-rest");
        Check.same("text of REST", m.get("text"), "héllo");
        Check.same("JSON of REST", m.get("json"), new HazelcastJsonValue("{\"a\":[1,null]}"));
        Check.same("a number of REST", m.get("number"), new HazelcastJsonValue("42"));
        Check.same("bytes of REST", m.get("bytes"), new byte[] {0, 1, -1});
        client.<String, Object>getMap("java-to-rest").putAll(Map.of("text", "héllo", "double", 1.5, "yes", true, "whole", 9007199254740993L,
            "json", new HazelcastJsonValue("{\"a\":[1,null]}"), "bytes", new byte[] {0, 1, -1}, "foreign", new Point(1, 2)));
    }

    private static void afterTheKill(HazelcastInstance client) throws Exception {
        IMap<String, Integer> m = client.getMap("java-orphans");
        for (int i = 0; i < 12; i++) {
            Check.same("lock " + i + " of a client that was killed", m.tryLock("k" + i, 20, TimeUnit.SECONDS), true);
        }
    }

    private static void step(HazelcastInstance client, String name, Step step) throws Exception {
        long began = System.currentTimeMillis();
        step.run(client);
        System.out.println("ok " + name + " " + (System.currentTimeMillis() - began) + " ms");
    }

    private static void all() throws Exception {
        Process victim = holder();
        HazelcastInstance client = connect();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(victim.getInputStream()))) {
            Check.same("the holder of locks", lines.readLine(), "held");
        }
        Check.same("tryLock while its owner lives", client.getMap("java-orphans").tryLock("k0"), false);
        victim.destroyForcibly().waitFor(); // as kill -9
        step(client, "singles", Use::singles);
        step(client, "types", Use::types);
        step(client, "bulk", Use::bulk);
        step(client, "predicates", Use::predicates);
        step(client, "paging", Use::paging);
        step(client, "iteration", Use::iteration);
        step(client, "aggregates", Use::aggregates);
        step(client, "locks", Use::locks);
        step(client, "life", Use::life);
        step(client, "listeners", Use::listeners);
        step(client, "nearCache", Use::nearCache);
        step(client, "engineMaps", Use::engineMaps);
        step(client, "otherStructures", Use::otherStructures);
        step(client, "rest", Use::rest);
        step(client, "afterTheKill", Use::afterTheKill);
        client.shutdown();
        System.out.println("all ok");
    }

    public static void main(String[] args) {
        cluster = args[0];
        addresses = args[1];
        try {
            if (args.length > 2) {
                hold();
            } else {
                all();
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.err.println("WRONG " + e.getMessage());
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }
}
