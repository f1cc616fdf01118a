import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.core.HazelcastJsonValue;
import com.hazelcast.query.Predicates;

public class Hello {
    public static void main(String[] args) {
        var config = new ClientConfig().setClusterName("dev").setProperty("hazelcast.logging.type", "none");
        config.getNetworkConfig().addAddress(args.length > 0 ? args[0] : "127.0.0.1:5701");
        var client = HazelcastClient.newHazelcastClient(config);
        var people = client.<String, HazelcastJsonValue>getMap("people");
        people.set("ann", new HazelcastJsonValue("{\"age\": 41, \"city\": \"Oslo\"}"));
        System.out.println(people.get("ann") + " " + people.keySet(Predicates.greaterThan("age", 40)));
        client.shutdown();
    }
}
