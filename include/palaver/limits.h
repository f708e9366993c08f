/* limits.h - the limits of the library. A call that exceeds one returns PAL_LIMIT and changes
 * nothing, unless a comment says otherwise. If an option can change a limit, its comment names the
 * option. docs/limits.md describes all of them. */
#ifndef PALAVER_LIMITS_H
#define PALAVER_LIMITS_H

#define PAL_MESSAGE_BYTES_MAX (16u << 20) /* default of pal_store_options.message_bytes_max */
#define PAL_BLOB_BYTES_MAX (64u << 20)    /* default of pal_store_options.blob_bytes_max */
#define PAL_BUSY_TIMEOUT_MS 30000         /* default of pal_store_options.busy_timeout_ms */
#define PAL_READERS_MAX 8                 /* default of pal_store_options.readers_max */
#define PAL_CACHE_BYTES (64u << 20)       /* default of pal_store_options.cache_bytes */

#define PAL_TENANT_LEN_MAX 128            /* bytes of a tenant's name */
#define PAL_KEY_LEN_MAX 1024              /* bytes of a key or an alias */
#define PAL_ALIASES_MAX 256               /* aliases of one session */
#define PAL_TITLE_LEN_MAX 1024            /* bytes of a title */
#define PAL_NAME_LEN_MAX 1024             /* bytes of the name of a project or an agent */
#define PAL_METADATA_LEN_MAX (256u << 10) /* bytes of a session's metadata */
#define PAL_SCOPE_LEN_MAX (64u << 10)     /* bytes of a session's scope */
#define PAL_CLIENT_ID_LEN_MAX 256         /* bytes of a client id */
#define PAL_MODEL_LEN_MAX 256             /* bytes of a model's name */
#define PAL_LABEL_LEN_MAX 256 /* bytes of a short text in a ledger row, a lease or an inbox item */
#define PAL_MARK_BODY_LEN_MAX (16u << 20)       /* bytes of a mark's body */
#define PAL_INBOX_ITEMS_MAX 1000                /* items in the inbox of one session */
#define PAL_LEASE_TTL_MS_MAX (24 * 3600 * 1000) /* longest lease */
#define PAL_TURN_TRIES_MAX 3 /* processes that can die while they run a turn; then the turn fails */
#define PAL_TURN_PAUSE_MS_MAX (24 * 3600 * 1000) /* how long a paused turn blocks later messages
                                                    after a restart; then its calls are
                                                    interrupted */
#define PAL_TURN_LOOK_SESSIONS_MAX 10000         /* sessions that are searched for a turn that has
                                                    recorded nothing */
#define PAL_BACKLOG_MS 2000 /* interval of searches for messages and turns of dead processes */
#define PAL_LEASE_POLL_MS_MAX 1000   /* interval of checks while a turn waits for another process */
#define PAL_TURN_CREATE_OPS_MAX 4    /* operations in pal_turn_request.create_ops */
#define PAL_TURN_UNREACHABLE_MS 2000 /* how long a service that was never reached is retried */
#define PAL_BINDING_RESULT_BYTES_MAX (1u << 30) /* bytes of the JSON that a function of binding.h
                                                   returns */
#define PAL_BINDING_MESSAGES_DEFAULT 100        /* messages that pal_binding_load() returns if the
                                                   query gives no limit */
#define PAL_DISPATCH_BYTES_MAX (4u << 20) /* bytes of events that wait for pal_runtime_dispatch(),
                                             for each watch; then the watch ends */
#define PAL_QUESTIONS_MAX 16 /* questions of a tool server that are open at once, or that arrive
                                while one call runs; further questions are declined */
#define PAL_QUESTION_BYTES_MAX (64u << 10) /* bytes of one question; longer ones are declined */
#define PAL_REPLY_BYTES_MAX (64u << 10)    /* bytes of the content of a reply to a question */
#define PAL_QUESTION_MS_MAX (10 * 60 * 1000) /* how long a running call waits for a reply; then the
                                                question is canceled */
#define PAL_CALL_HANDLE_BYTES_MAX (256u << 10) /* bytes that are stored to continue a tool call: its
                                                  task, or its questions and the server's state */
#define PAL_TOOLS_WAIT_MS 10000      /* default of pal_runtime_options.tools_wait_ms */
#define PAL_APPEND_MESSAGES_MAX 10000  /* messages in one append */
#define PAL_BATCH_OPS_MAX 10000        /* operations in one pal_store_apply() */
#define PAL_BATCH_BYTES_MAX (1u << 30) /* bytes of all messages in one pal_store_apply() */
#define PAL_SESSION_PAGE_MAX 1000      /* sessions on one page of a list */
#define PAL_SESSION_PAGE_DEFAULT 50    /* used if the caller gives no limit */
#define PAL_SESSION_LOOKS_MAX 1000     /* sessions that one page of a filtered list looks at */
#define PAL_FAMILY_MAX 1000            /* sessions in a family of forks */
#define PAL_TITLE_CHARACTERS 60        /* characters of a title that is made from a message */
#define PAL_SEARCH_HITS_MAX 1000       /* hits on one page of a search */
#define PAL_SEARCH_MATCHES_MAX 16      /* matches that are marked in the snippet of a hit */
#define PAL_SEARCH_HITS_DEFAULT 20     /* used if the caller gives no limit */
#define PAL_SEARCH_TEXT_LEN_MAX 4096   /* bytes of the text to search for */
#define PAL_SEARCH_WORDS_MAX 64        /* words in the text to search for; a phrase counts as one */
#define PAL_SEARCH_NEIGHBORS_MAX 5     /* messages before and after a hit of a ranked search */
#define PAL_SEARCH_WAIT_MS 1000        /* the server's pal_search_query.wait_ms */
#define PAL_FORK_DEPTH_MAX 1000000     /* parents of a fork; a longer chain is treated as damage */
#define PAL_BLOB_UNUSED_MS_MAX (24 * 3600 * 1000) /* how long an unused blob is kept */
#define PAL_RECORD_KIND_LEN_MAX 64                /* bytes of a record's kind */
#define PAL_RECORD_NAME_LEN_MAX 512               /* bytes of a record's name */
#define PAL_OWNER_SIZE 32                         /* size of pal_budget.owner, including the NUL */
#define PAL_RECORD_BODY_LEN_MAX (16u << 20)       /* bytes of a record's body */
#define PAL_RECORD_PAGE_MAX 1000                  /* records on one page of a list */
#define PAL_LEDGER_PAGE_MAX 1000                  /* ledger rows on one page of a list */
#define PAL_LEDGER_PAGE_DEFAULT 50                /* used if the caller gives no limit */
#define PAL_PERMISSION_MEMORIES_MAX 1000          /* remembered answers that a session uses */
#define PAL_NOTES_MAX 400                         /* active notes about one subject */
#define PAL_NOTE_TEXT_LEN_MAX 600                 /* bytes of a note */
#define PAL_NOTE_QUOTE_LEN_MAX 300                /* bytes of a quote */
#define PAL_NOTE_SUBJECT_LEN_MAX 1024             /* bytes of a subject or a circle */
#define PAL_NOTE_REASON_LEN_MAX 300               /* bytes of the reason of a change */
#define PAL_NOTE_SOURCES_MAX 8                    /* sources of a note */
#define PAL_NOTE_CHANGES_MAX 32                   /* changes in the history of a note */
#define PAL_NOTE_PAGE_MAX 1000                    /* notes on one page of a list */
#define PAL_NOTE_PENDING_MS (INT64_C(30) * 24 * 3600 * 1000) /* how long a note can be pending */
#define PAL_RECORD_PAGE_DEFAULT 50                /* used if the caller gives no limit */
#define PAL_INBOX_OWNERS_MAX 1000 /* sessions on one page of pal_store_inbox_owners() */
#define PAL_COMMIT_QUEUE_MAX 4096 /* calls that wait for the writer; further calls block, except
                                     pal_store_apply_async() */
#define PAL_STORE_WATCHERS_MAX 8  /* watches of one store: pal_store_watch() */
#define PAL_COMMIT_WORKS_MAX 512  /* operations of several calls that share one commit */

#define PAL_CONFIG_BYTES_MAX (1u << 20) /* size of a configuration file */
#define PAL_CONFIG_DEPTH_MAX 16         /* nested lists and maps in a configuration file */
#define PAL_CONFIG_LIST_MAX 1000        /* elements of a list in a configuration file, such as
                                           providers or headers */
#define PAL_SYSTEM_LEN_MAX (256u << 10) /* bytes of instructions in a configuration file */

#define PAL_ROUTE_ID_LEN_MAX 4096      /* bytes of each text in an inbound context and in route
                                          settings */
#define PAL_ROUTE_AGENTS_MAX 10000     /* agents in route settings */
#define PAL_ROUTE_RULES_MAX 10000      /* rules in route settings */
#define PAL_ROUTE_LINK_IDS_MAX 1000000 /* ids of all links in route settings together */

#define PAL_TOKENS_IMAGE 1500          /* tokens that an image counts, whatever its size */
#define PAL_TOKENS_FILE 1000           /* tokens that a file counts, whatever its size */
#define PAL_TOKENS_ESTIMATED_BYTES_MAX (1u << 20) /* bytes of an answer that are examined if its
                                                     service reports no usage */
#define PAL_MODEL_RULES_MAX 10000      /* models in a configuration */
#define PAL_SENT_ITEMS_EACH 8          /* first items of a request that have a hash each; later
                                          items share hashes */
#define PAL_SENT_HASHES_MAX 192        /* hashes that are stored of a request */
#define PAL_CALIBRATION_TOKENS_MIN 100 /* reports of fewer tokens are ignored */
#define PAL_CALIBRATION_MIN 1.0 /* smallest ratio that is used: a low report never makes room */
#define PAL_CALIBRATION_MAX 6.0 /* largest ratio that is used */

#define PAL_CONTEXT_TOKENS_DEFAULT 32768 /* assumed context of a model with unknown limits */
#define PAL_COMPACTION_THRESHOLD 118000  /* tokens from which `reset` starts again */
#define PAL_SUMMARY_TOKENS_MAX 4096      /* default of pal_context_settings.summary_tokens_max */
#define PAL_BUDGET_OUTPUT_TOKENS 8192    /* output tokens that a running call reserves of a budget,
                                            at most */
#define PAL_SPILL_LINES_MAX 2000         /* lines of a tool output; longer outputs are cut and kept
                                            as a blob */
#define PAL_SPILL_BYTES_MAX (50u << 10)  /* bytes of a tool output; longer outputs are cut and kept
                                            as a blob */

#define PAL_PROVIDER_SLOTS_MAX 1024 /* slots of a llama.cpp server; with more, the server chooses */
#define PAL_PROVIDER_REQUEST_BYTES_MAX (256u << 20) /* bytes of a request to a model service */
#define PAL_PROVIDER_ANSWER_BYTES_MAX (256u << 20)  /* bytes of a response of a model service */
#define PAL_PROVIDER_BODY_BYTES_MAX (64u << 20)     /* bytes of a response that is passed on and is
                                                       not a stream */
#define PAL_PROVIDER_EVENT_BYTES_MAX (16u << 20)    /* bytes of one event of a stream, and of any
                                                       other response that is not a stream */
#define PAL_PROVIDER_ERROR_BYTES_MAX (1u << 20)     /* bytes of an error that is passed on */
#define PAL_PROVIDER_VALUES_MAX 500000u             /* JSON values in an event or a response */
#define PAL_PROVIDER_TEXT_BYTES_MAX (6u << 20)      /* bytes of all texts in one event or response,
                                                       with their escapes */
#define PAL_PROVIDER_SAID_BYTES_MAX (8u << 20)      /* bytes of all texts and tool arguments in one
                                                       response */
#define PAL_PROVIDER_INLINE_BYTES_MAX (256u << 10)  /* bytes of a passed-on response, or of one of
                                                       its events, that the loop thread parses */
#define PAL_PROVIDER_PROGRESS_BYTES_MAX (64u << 10) /* bytes of one event of progress of a tool that
                                                       the service runs; a longer one is left out */
#define PAL_PROVIDER_PROGRESS_BYTES_SUM_MAX (2u << 20) /* bytes of all these events in one answer */
#define PAL_PROVIDER_TOKENS_MAX 1000000000u         /* tokens of one call; if a service reports
                                                       more, its usage is ignored */
#define PAL_OUTBOX_LEN_MAX 128                      /* bytes of the name of an outbox */
#define PAL_DELIVER_BYTES_MAX (16u << 10)           /* bytes of pal_turn_channel.deliver */
#define PAL_DELIVER_ALSO_BYTES_MAX (1u << 20)       /* bytes of pal_turn_channel.also */
#define PAL_TURN_LIST_MAX 1000                      /* turns in one list */
#define PAL_ANSWER_CALLS_MAX 1024                   /* tool calls in one answer */

#endif
