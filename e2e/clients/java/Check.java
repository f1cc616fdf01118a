import java.util.Arrays;
import java.util.Collection;
import java.util.Objects;
import java.util.concurrent.Callable;

/** What the checks need: comparing strictly, and waiting for a bounded time. */
final class Check {
    private Check() {
    }

    static final class Wrong extends RuntimeException {
        Wrong(String text) {
            super(text);
        }
    }

    static void same(String what, Object got, Object want) {
        if (!Objects.deepEquals(got, want)) {
            throw new Wrong(what + ": want " + show(want) + ", got " + show(got));
        }
    }

    static String show(Object o) {
        if (o == null) {
            return "null";
        }
        String text = o instanceof Object[] a ? Arrays.deepToString(a) : o.toString();
        if (text.length() > 2000) {
            text = text.substring(0, 2000) + "...";
        }
        return text + (o instanceof Collection<?> ? "" : " (" + o.getClass().getSimpleName() + ")");
    }

    /** Expects an error that is a kind and has like in its text. */
    static void fails(String what, Class<? extends Throwable> kind, String like, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Throwable e) {
            if (!kind.isInstance(e) || !String.valueOf(e.getMessage()).contains(like)) {
                throw new RuntimeException(what + ": want " + kind + " with " + like + ", got " + e, e);
            }
            return;
        }
        throw new Wrong(what + ": want " + kind + ", got the result " + show(got));
    }

    /** Asks again and again until the answer is the wanted one. */
    static void within(long millis, String what, Object want, Callable<?> ask) throws Exception {
        for (long end = System.currentTimeMillis() + millis;; Thread.sleep(20)) {
            Object got = ask.call();
            if (Objects.deepEquals(got, want)) {
                return;
            }
            if (System.currentTimeMillis() > end) {
                throw new Wrong(what + ", after " + millis + " ms: want " + show(want) + ", got " + show(got));
            }
        }
    }
}
