/* server_limits.h - the bounds of the server that no key of the configuration changes. */
#ifndef PAL_SERVER_LIMITS_H
#define PAL_SERVER_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define PAL_SERVER_WORKERS_MAX 16       /* threads for what blocks; started when they are needed */
#define PAL_SERVER_WORK_QUEUE_MAX 4096  /* requests that wait for one; more are refused */
/* A longer body is read by a worker, never by a listener's thread. */
#define PAL_SERVER_INLINE_BODY_BYTES_MAX ((size_t)64 << 10)
/* A longer body waits for one of the workers for large ones, so that others have workers left. */
#define PAL_SERVER_SMALL_BODY_BYTES_MAX ((size_t)1 << 20)
#define PAL_SERVER_LARGE_WORKERS_MAX 2 /* threads for requests with such a body */
/* Of the body of a request to a route that takes none. */
#define PAL_SERVER_STRAY_BODY_BYTES_MAX ((size_t)16 << 10)
#define PAL_SERVER_BODIES_RETRY_MS 2000 /* what a client is told where bodies_bytes_max is full */
#define PAL_SERVER_IDLE_LOOKS_MAX 256 /* connections looked at to find an idle one to close */
#define PAL_SERVER_KEPT_MS 5000 /* after a request, before a quiet connection counts as idle */
#define PAL_SERVER_CROWD_MS 5000 /* that a connection without a place has for its request */
#define PAL_SERVER_ADDRESS_SPARE 8 /* connections of one address over its share that get a 503 */
#define PAL_SERVER_THREADS_MAX 8        /* of the listener, where `threads` is 0 */
#define PAL_SERVER_CONNECTIONS_SPARE 64 /* over connections_max that still get an answer: 503 */
#define PAL_SERVER_FILES_SPARE 256      /* open files for neither connections nor calls */
#define PAL_SERVER_HEADERS_MAX 100      /* header lines of one request */
#define PAL_SERVER_REQUEST_ID_LEN_MAX 128 /* of a client's own; a longer one is replaced */
#define PAL_SERVER_PROXIES_MAX 1024       /* addresses in a forwarded header that are looked at */
#define PAL_SERVER_LINGERS_MAX 256        /* refused uploads that are read to their end at once */
#define PAL_SERVER_LINGER_MS 5000         /* and for how long each */
#define PAL_SERVER_CLOSE_MS 2000          /* that readers have to take the ends of their streams */
#define PAL_SERVER_TLS_FILE_BYTES_MAX (1u << 20)

#define PAL_SERVER_ANSWER_BYTES_MAX ((size_t)512 << 20)   /* of a JSON answer */
#define PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX 255            /* of the header */
#define PAL_SERVER_REMEMBERED_BYTES_MAX ((size_t)4 << 20) /* of an answer that is remembered */
#define PAL_SERVER_KEYS_CACHED_MAX 4096                   /* keys of the API in memory */
#define PAL_SERVER_KEYS_FRESH_US 3000000                  /* so long may a revoked one open */
#define PAL_SERVER_KEY_PAGE_MAX 1000                      /* keys in one page of a list */
#define PAL_SERVER_KEY_RATE_MAX 1000000                   /* requests a minute of a key */
#define PAL_SERVER_RATE_BUCKETS_MAX 65536                 /* keys and addresses that are counted */
#define PAL_SERVER_TRACE_BYTES_MAX ((size_t)4 << 20)      /* of spans that wait; more are dropped */
#define PAL_SERVER_TRACE_TURNS_MAX 10000                  /* turns that are followed at once */
#define PAL_SERVER_LOG_BODY_MAX ((size_t)1500)            /* bytes of a body in the log */
#define PAL_SERVER_LOG_PATH_MAX ((size_t)200)             /* bytes of a path in the log */
#define PAL_SERVER_SWEEP_STEP 200                         /* sessions in one step of the sweep */

#define PAL_SERVER_MESSAGES_MAX 1000                     /* in one request */
#define PAL_SERVER_MESSAGE_PAGE_MAX 1000                 /* in one answer */
#define PAL_SERVER_MESSAGE_PAGE_DEFAULT 50               /* where none is named */
#define PAL_SERVER_EXPIRES_IN_S_MAX (3650u * 24 * 3600)  /* what expires_in may say */
#define PAL_SERVER_EXPORT_PAGE_BYTES ((size_t)256 << 10) /* that an export reads at once */
#define PAL_SERVER_IMPORT_IDS_MAX 1000                   /* sessions that an answer names */
#define PAL_SERVER_IMPORT_PROBLEMS_MAX 20 /* problems that it tells; all are counted */

#define PAL_SERVER_TOOLS_MAX 1024                     /* of the caller's, in one request */
#define PAL_SERVER_ITERATIONS_MAX 1000                /* what max_tool_iterations may say */
#define PAL_SERVER_FRAME_BYTES_MAX ((size_t)16 << 20) /* of a frame over stream_bytes_max */
#define PAL_SERVER_EVENT_BYTES_MAX ((size_t)64 << 20) /* of one event of a turn */
#define PAL_SERVER_CHAT_CHARS_MAX 10000               /* of a message of /chat, as Skillian's */
#define PAL_SERVER_CONVERSATIONS_MAX 1000             /* in one list of a project's */
#define PAL_SERVER_CONVERSATIONS_DEFAULT 50           /* where none is named */
#define PAL_SERVER_CONVERSATION_MESSAGES_MAX 10000    /* in one answer, of all its conversations */
#define PAL_SERVER_BEAD_SESSIONS_MAX 10000            /* looked through for one without a record */
#define PAL_SERVER_FEED_EVENTS_MAX 4096     /* of one tenant that are kept to be read again */
#define PAL_SERVER_FEED_TENANTS_MAX 256     /* whose events are kept */
#define PAL_SERVER_PICO_SESSIONS_MAX 10000  /* looked through for those of PicoClaw's page */
#define PAL_SERVER_TRASH_SESSIONS_MAX 10000 /* looked through for a key in the trash */
#define PAL_SERVER_MCP_SESSIONS_MAX 10000             /* of MCP clients; the oldest goes */
#define PAL_SERVER_MCP_JOBS_MAX 10000                 /* turns that MCP clients wait for */
#define PAL_SERVER_MCP_PAGE_MAX 200                   /* entries in an answer of a tool */
#define PAL_SERVER_MCP_PAGE_BYTES_MAX ((size_t)64 << 10)  /* of texts in it, about */
#define PAL_SERVER_MCP_TEXT_BYTES_MAX ((size_t)16 << 10)  /* of one message's text in it */
#define PAL_SERVER_MCP_PART_BYTES_MAX ((size_t)4 << 10)   /* of a tool call's arguments in it */
#define PAL_SERVER_MCP_INPUT_BYTES_MAX ((size_t)1 << 20)  /* of a text that a tool is given */
#define PAL_SERVER_MCP_ANSWER_BYTES_MAX ((size_t)1 << 20) /* of a turn's answer; more is cut */

/* Of OpenAI's responses. */
#define PAL_RESPONSE_ECHO_BYTES_MAX ((size_t)8 << 20)    /* instructions, tools, ... of one */
#define PAL_RESPONSE_DELTAS_BYTES_MAX ((size_t)4 << 20)  /* lengths of deltas; more: no replay */
#define PAL_RESPONSE_EVENT_BYTES_MAX ((size_t)256 << 20) /* of one event */
/* Of its events that wait for a slow reader: the end of a stream says all of it several times. */
#define PAL_RESPONSE_STREAM_BYTES_MAX ((size_t)128 << 20)
/* After which one is swept that was not to be stored, where it stayed. */
#define PAL_RESPONSE_PASSING_MS (24 * 3600 * 1000)

#endif
