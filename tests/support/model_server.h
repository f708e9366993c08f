/* model_server.h - a model's service that speaks chat completions as streams, in a process of its
 * own, quick enough for thousands of streams at once. Nothing is random: the newest user's message
 * says what it does.
 *
 *   @say N      N pieces of text, at once
 *   @call ID    calls the tool "fx__note" with {"id":"ID.1"} and {"id":"ID.2"}; behind their
 *               results it says "done ID"
 *   @held       nothing until the test asks for a piece, and another with each time
 *   @flood      pieces without end, as fast as they are taken, until the test asks for the end */
#ifndef PAL_TESTS_MODEL_SERVER_H
#define PAL_TESTS_MODEL_SERVER_H

#include <sys/types.h>

#define MODEL_SERVER_PIECE "somewords" /* of every stream but @call's last one */

typedef struct model_server {
    pid_t pid;
    int port;
    int commands;
} model_server;

/* Call it before there are threads. Ends the program when it can't. */
void model_server_start(model_server *out_server);
void model_server_stop(model_server *server);

/* As soon as `held` streams are held, each gets a piece. Comes back at once. */
void model_server_piece(const model_server *server, int held);
/* Those that are held or flood end properly. */
void model_server_end(const model_server *server);

#endif
