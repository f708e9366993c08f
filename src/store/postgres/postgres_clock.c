/* postgres_clock.c - the clock that all processes on a database share: the database's.
 *
 * The clocks of machines differ, sometimes by minutes. If each process compared expiries with its
 * own clock, one would take the leases of another while they are held. So every batch returns the
 * database's time. The database read it after the batch was sent and before its result arrived.
 * This gives an interval for the difference to this machine's monotonic clock, and the intervals of
 * several batches have only a small part in common. The monotonic clock does not change when the
 * time is set.
 *
 * The time of this machine is used unchanged if it agrees with the database's, or almost: then
 * both are set by the same source, and a test that sets the time of its process sees that time. */
#include "base/clock.h"
#include "store/postgres/postgres.h"

#define TOLERANCE_US (250 * 1000)

void pal_postgres_clock_note(
        pal_postgres *store, int64_t time_us, int64_t from_us, int64_t to_us, bool is_first)
{
    pal_postgres_clock *clock = &store->clock;
    int64_t least_us = time_us - to_us, most_us = time_us - from_us;

    pthread_mutex_lock(&clock->lock);
    /* Without a common part, one of the clocks was changed, or they drift apart. */
    if (!clock->is_known || is_first || least_us > clock->most_us || most_us < clock->least_us) {
        clock->least_us = least_us;
        clock->most_us = most_us;
    }
    clock->least_us = least_us > clock->least_us ? least_us : clock->least_us;
    clock->most_us = most_us < clock->most_us ? most_us : clock->most_us;
    clock->is_known = true;
    pthread_mutex_unlock(&clock->lock);
}

int64_t pal_postgres_now_ms(pal_engine *engine)
{
    pal_postgres_clock *clock = &((pal_postgres *)engine)->clock;
    int64_t machine_us = pal_clock_machine_ms() * 1000 - pal_clock_monotonic_us(), ahead_us = 0;

    pthread_mutex_lock(&clock->lock);
    if (clock->is_known && (machine_us < clock->least_us - TOLERANCE_US ||
                machine_us > clock->most_us + TOLERANCE_US))
        ahead_us = clock->least_us + (clock->most_us - clock->least_us) / 2 - machine_us;
    pthread_mutex_unlock(&clock->lock);
    return pal_clock_now_ms() + ahead_us / 1000;
}
