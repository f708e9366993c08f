/* model_server.h - a model service with streamed chat completions, in a separate process, fast
 * enough for thousands of streams at the same time. Nothing is random: the newest user message says
 * what the service does.
 *
 *   @say N      N pieces of text, at once
 *   @call ID    calls the tool "fx__note" with {"id":"ID.1"} and {"id":"ID.2"}; after their
 *   results it sends "done ID"
 *   @held       nothing until the test requests a piece, and one more piece per request
 *   @flood      pieces without end, as fast as they are read, until the test requests the end */
#ifndef PAL_TESTS_MODEL_SERVER_H
#define PAL_TESTS_MODEL_SERVER_H

#include <sys/types.h>

#define MODEL_SERVER_PIECE "somewords" /* usage of all streams but the last of @call */

typedef struct model_server {
    pid_t pid;
    int port;
    int commands;
} model_server;

/* Call it before threads are started. Ends the program if it cannot start. */
void model_server_start(model_server *out_server);
void model_server_stop(model_server *server);

/* Each stream gets a piece as soon as `held` streams are held. Returns at once. */
void model_server_piece(const model_server *server, int held);
/* Streams that are held or flood end properly. */
void model_server_end(const model_server *server);

#endif
