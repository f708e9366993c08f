/* server_limits.h - limits of the server that cannot be configured. */
#ifndef PAL_SERVER_LIMITS_H
#define PAL_SERVER_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define PAL_SERVER_WORKERS_MAX 16      /* threads for blocking work; started when they are needed */
#define PAL_SERVER_WORK_QUEUE_MAX 4096 /* requests that wait for a worker; more are refused */
/* A longer body is parsed by a worker, never by a listener's thread. */
#define PAL_SERVER_INLINE_BODY_BYTES_MAX ((size_t)64 << 10)
/* A longer body waits for a worker for large bodies, so that other requests still find workers. */
#define PAL_SERVER_SMALL_BODY_BYTES_MAX ((size_t)1 << 20)
#define PAL_SERVER_LARGE_WORKERS_MAX 2 /* threads for requests with such a body */
/* The longest body of a request to a route without a body. */
#define PAL_SERVER_STRAY_BODY_BYTES_MAX ((size_t)16 << 10)
/* Retry-After of a 503 before the handler, as when bodies_bytes_max is reached. */
#define PAL_SERVER_BODIES_RETRY_MS 2000
#define PAL_SERVER_IDLE_LOOKS_MAX 256 /* connections to inspect for an idle one to close */
#define PAL_SERVER_KEPT_MS 5000       /* time after a request before an unused connection is idle */
#define PAL_SERVER_CROWD_MS 5000   /* time for a connection without a place to send its request */
#define PAL_SERVER_ADDRESS_SPARE 8 /* connections of one address without a place that get a 503 */
#define PAL_SERVER_THREADS_MAX 8   /* threads of the listener if `threads` is 0 */
#define PAL_SERVER_CONNECTIONS_SPARE 64 /* connections over connections_max that still get a 503 */
#define PAL_SERVER_FILES_SPARE 256 /* open files that are neither for connections nor for calls */
#define PAL_SERVER_HEADERS_MAX 100 /* header lines of one request */
/* Length of a client's request id; a longer id is replaced. */
#define PAL_SERVER_REQUEST_ID_LEN_MAX 128
#define PAL_SERVER_PROXIES_MAX 1024 /* addresses in a forwarded header that are inspected */
#define PAL_SERVER_LINGERS_MAX 256 /* refused uploads that are read to their end at the same time */
#define PAL_SERVER_LINGER_MS 5000  /* how long a refused upload is read */
#define PAL_SERVER_CLOSE_MS 2000   /* time for clients to read the ends of their streams */
#define PAL_SERVER_TLS_FILE_BYTES_MAX (1u << 20)

#define PAL_SERVER_ANSWER_BYTES_MAX ((size_t)512 << 20) /* bytes of a JSON response */
#define PAL_SERVER_GZIP_BYTES_MIN ((size_t)4 << 10) /* a longer JSON response is compressed */
#define PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX 255          /* length of the Idempotency-Key header */
/* Bytes of a response that is stored for repeats. */
#define PAL_SERVER_REMEMBERED_BYTES_MAX ((size_t)4 << 20)
#define PAL_SERVER_KEYS_CACHED_MAX 4096   /* API keys in memory */
#define PAL_SERVER_KEYS_FRESH_US 3000000  /* how long a revoked key may still be accepted */
#define PAL_SERVER_KEY_PAGE_MAX 1000      /* keys in one page of a list */
#define PAL_SERVER_LOGINS_MAX 10000       /* logins that one list of a key's logins inspects */
#define PAL_SERVER_KEY_RATE_MAX 1000000   /* requests per minute of a key */
#define PAL_SERVER_RATE_BUCKETS_MAX 65536 /* keys and addresses that are counted */
#define PAL_SERVER_TRACE_BYTES_MAX ((size_t)4 << 20) /* bytes of waiting spans; more are dropped */
#define PAL_SERVER_TRACE_TURNS_MAX 10000             /* turns that are traced at the same time */
#define PAL_SERVER_LOG_BODY_MAX ((size_t)1500)       /* bytes of a body in the log */
#define PAL_SERVER_LOG_PATH_MAX ((size_t)200)        /* bytes of a path in the log */
#define PAL_SERVER_SWEEP_STEP 200                    /* sessions in one step of the sweep */

#define PAL_SERVER_MESSAGES_MAX 1000       /* messages in one request */
#define PAL_SERVER_MESSAGE_PAGE_MAX 1000   /* messages in one response */
#define PAL_SERVER_MESSAGE_PAGE_DEFAULT 50 /* messages in one response if no limit is sent */
#define PAL_SERVER_EXPIRES_IN_S_MAX (3650u * 24 * 3600)  /* largest value of expires_in */
#define PAL_SERVER_IMPORT_IDS_MAX 1000                   /* sessions that a response names */
#define PAL_SERVER_IMPORT_PROBLEMS_MAX 20 /* problems that a response lists; all are counted */

#define PAL_SERVER_USAGE_GROUPS_MAX 400 /* hours, days or names whose usage one response reports */
#define PAL_SERVER_USAGE_CALLS_MAX 100000 /* model calls that one sum by name reads */
#define PAL_SERVER_LEDGER_CURSOR_SIZE 128 /* bytes of a cursor in the ledger */
#define PAL_SERVER_MARK_PAGE_MAX 1000  /* marks in one response, if a limit is sent */
#define PAL_SERVER_TOOLS_MAX 1024      /* tools of the caller in one request */
#define PAL_SERVER_PLAN_TEXT_MAX 2000  /* characters of the text of an item of a plan */
#define PAL_SERVER_PLAN_MARKS_MAX 64   /* marks that a plan is made without */
/* Length of a single frame over stream_bytes_max. */
#define PAL_SERVER_FRAME_BYTES_MAX ((size_t)16 << 20)
#define PAL_SERVER_EVENT_BYTES_MAX ((size_t)64 << 20) /* bytes of one event of a turn */
#define PAL_SERVER_CHAT_CHARS_MAX 10000     /* characters of a message to /chat, as in Skillian */
#define PAL_SERVER_CONVERSATIONS_MAX 1000   /* conversations in one list of a project */
#define PAL_SERVER_CONVERSATIONS_DEFAULT 50 /* conversations in a list if no limit is sent */
/* Messages of all conversations in one response. */
#define PAL_SERVER_CONVERSATION_MESSAGES_MAX 10000
#define PAL_SERVER_BEAD_SESSIONS_MAX 10000  /* sessions to search for a bead without a record */
#define PAL_SERVER_FEED_EVENTS_MAX 4096     /* events of one tenant that can be read again */
#define PAL_SERVER_FEED_WATCHES_MAX 16      /* turns that one reader of a feed watches */
#define PAL_SERVER_FEED_TENANTS_MAX 256     /* tenants whose events are kept */
#define PAL_SERVER_PICO_SESSIONS_MAX 10000  /* sessions to search for those of PicoClaw's page */
#define PAL_SERVER_TRASH_SESSIONS_MAX 10000 /* sessions to search for a key in the trash */
#define PAL_SERVER_MCP_SESSIONS_MAX 10000   /* sessions of MCP clients; the oldest is dropped */

/* ---- OpenAI's Responses API ---- */

/* Bytes of the instructions, tools and other settings that one response repeats. */
#define PAL_RESPONSE_ECHO_BYTES_MAX ((size_t)8 << 20)
/* Stored lengths of deltas, in bytes. With more, the response cannot be replayed. */
#define PAL_RESPONSE_TOOLS_BYTES_MAX ((size_t)2 << 20)
#define PAL_RESPONSE_DELTAS_BYTES_MAX ((size_t)4 << 20)
#define PAL_RESPONSE_LISTS_BYTES_MAX ((size_t)1 << 20) /* bytes of the lists of tools */
#define PAL_RESPONSE_EVENT_BYTES_MAX ((size_t)256 << 20) /* bytes of one event */
/* Bytes of events that wait for a slow client. The end of a stream repeats all of the response
 * several times. */
#define PAL_RESPONSE_STREAM_BYTES_MAX ((size_t)128 << 20)
/* A temporary session of a response with "store":false that was not erased expires after this. */
#define PAL_RESPONSE_PASSING_MS (24 * 3600 * 1000)

#endif
