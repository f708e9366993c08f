/* limits.h - every bound has a name here. Those that options can change name their option. */
#ifndef PALAVER_LIMITS_H
#define PALAVER_LIMITS_H

#define PAL_MESSAGE_BYTES_MAX (16u << 20) /* pal_store_options.message_bytes_max */
#define PAL_BLOB_BYTES_MAX (64u << 20)    /* pal_store_options.blob_bytes_max */
#define PAL_BUSY_TIMEOUT_MS 30000         /* pal_store_options.busy_timeout_ms */
#define PAL_READERS_MAX 8                 /* pal_store_options.readers_max */

#define PAL_TENANT_LEN_MAX 128
#define PAL_KEY_LEN_MAX 1024 /* of keys and aliases */
#define PAL_ALIASES_MAX 256  /* of one session */
#define PAL_TITLE_LEN_MAX 1024
#define PAL_NAME_LEN_MAX 1024 /* of a project and an agent */
#define PAL_METADATA_LEN_MAX (256u << 10)
#define PAL_SCOPE_LEN_MAX (64u << 10)
#define PAL_CLIENT_ID_LEN_MAX 256
#define PAL_MODEL_LEN_MAX 256
#define PAL_LABEL_LEN_MAX 256 /* the short texts of ledger rows, leases, inbox items */
#define PAL_MARK_BODY_LEN_MAX (16u << 20)
#define PAL_INBOX_ITEMS_MAX 1000 /* that wait in one session */
#define PAL_LEASE_TTL_MS_MAX (24 * 3600 * 1000)
#define PAL_TURN_TRIES_MAX 3 /* processes that begin to answer a turn and die */
#define PAL_TURN_PAUSE_MS_MAX (24 * 3600 * 1000) /* for which what came later waits for results */
#define PAL_TURN_LOOK_SESSIONS_MAX 10000 /* looked through for a turn that has recorded nothing */
#define PAL_LEASE_POLL_MS_MAX 1000 /* until a turn that waits for another process looks again */
#define PAL_TURN_OPENING_MAX 4 /* pal_turn_request.opening */
#define PAL_TURN_UNREACHABLE_MS 2000 /* of tries to reach a model service that was never reached */
#define PAL_TOOLS_WAIT_MS 10000 /* pal_runtime_options.tools_wait_ms */
#define PAL_APPEND_MESSAGES_MAX 10000 /* in one append */
#define PAL_BATCH_OPS_MAX 10000       /* in one pal_store_apply() */
#define PAL_BATCH_BYTES_MAX (1u << 30) /* of all messages in it */
#define PAL_SESSION_PAGE_MAX 1000
#define PAL_SESSION_PAGE_DEFAULT 50
#define PAL_SEARCH_HITS_MAX 1000
#define PAL_SEARCH_HITS_DEFAULT 20
#define PAL_SEARCH_TEXT_LEN_MAX 4096 /* of what is searched for */
#define PAL_SEARCH_WORDS_MAX 64      /* likewise, phrases counting as one */
#define PAL_FORK_DEPTH_MAX 1000000 /* a chain that is longer than this is a damaged one */
#define PAL_BLOB_UNUSED_MS_MAX (24 * 3600 * 1000)
#define PAL_RECORD_KIND_LEN_MAX 64
#define PAL_RECORD_NAME_LEN_MAX 512
#define PAL_OWNER_SIZE 32 /* the name of who spends a budget, with its NUL */
#define PAL_RECORD_BODY_LEN_MAX (16u << 20)
#define PAL_RECORD_PAGE_MAX 1000
#define PAL_RECORD_PAGE_DEFAULT 50
#define PAL_INBOX_OWNERS_MAX 1000 /* sessions in one page */
#define PAL_COMMIT_QUEUE_MAX 4096 /* calls that wait for the writer; more of them block */
#define PAL_STORE_WATCHERS_MAX 8 /* pal_store_watch() */
#define PAL_COMMIT_WORKS_MAX 512  /* operations of several calls in one commit */

#define PAL_CONFIG_BYTES_MAX (1u << 20) /* of a configuration file */
#define PAL_CONFIG_DEPTH_MAX 16         /* of lists and maps in one another in it */
#define PAL_CONFIG_LIST_MAX 1000 /* providers, tool servers, headers, words of a command, ... */
#define PAL_SYSTEM_LEN_MAX (256u << 10) /* of instructions in it */

#define PAL_ROUTE_ID_LEN_MAX 4096 /* of every text of an inbound context or of route settings */
#define PAL_ROUTE_AGENTS_MAX 10000
#define PAL_ROUTE_RULES_MAX 10000
#define PAL_ROUTE_LINK_IDS_MAX 1000000 /* ids of all identity links together */

#define PAL_TOKENS_IMAGE 1500 /* what an image counts, whatever its size */
#define PAL_TOKENS_FILE 1000  /* likewise a file */
#define PAL_MODEL_RULES_MAX 10000
#define PAL_SENT_ITEMS_EACH 8   /* items of a request that have a hash each; later ones share */
#define PAL_SENT_HASHES_MAX 192 /* of a request */
#define PAL_CALIBRATION_TOKENS_MIN 100 /* smaller reports tell nothing */
#define PAL_CALIBRATION_MIN 1.0        /* of the ratio: a low report never makes room */
#define PAL_CALIBRATION_MAX 6.0

#define PAL_CONTEXT_TOKENS_DEFAULT 32768 /* of a model whose limits nobody knows */
#define PAL_COMPACTION_THRESHOLD 118000  /* tokens at which `reset` begins anew */
#define PAL_SUMMARY_TOKENS_MAX 4096      /* pal_context_settings.summary_tokens_max */
#define PAL_BUDGET_OUTPUT_TOKENS 8192     /* the most that a running call holds of a budget for its
                                             output */
#define PAL_SPILL_LINES_MAX 2000         /* of a tool's output; more is kept beside the message */
#define PAL_SPILL_BYTES_MAX (50u << 10)  /* likewise */

#define PAL_PROVIDER_REQUEST_BYTES_MAX (256u << 20) /* to a model's service */
#define PAL_PROVIDER_ANSWER_BYTES_MAX (256u << 20)  /* of all of its answer */
#define PAL_PROVIDER_BODY_BYTES_MAX (64u << 20)     /* likewise of one that is no stream */
#define PAL_PROVIDER_EVENT_BYTES_MAX (16u << 20)    /* of one event of a stream */
#define PAL_PROVIDER_TOKENS_MAX 1000000000u         /* of one call that a service is believed */
#define PAL_ANSWER_CALLS_MAX 1024                   /* tool calls in one answer */

#endif
