/* http_server.h - a small HTTP server on loopback that behaves well or badly; the path selects the
 * behavior.
 *
 *   /echo         the body of the request, with its length; the connection is kept
 *   /head         the head of the request as the body
 *   /events       three events, in chunks
 *   /bytes/N      N bytes, in chunks
 *   /slow         "slow" byte by byte, a millisecond apart
 *   /trickle/N    a hundred bytes, N milliseconds apart
 *   /code/N       status N and a short body
 *   /continue     "100 Continue" and "103 Early Hints" first
 *   /redirect     to /echo
 *   /elsewhere    a redirect to another host, with secrets in the address
 *   /trailer      chunks with a trailer
 *   /until-close  no length: the end of the connection is the end
 *   /once         like /echo, then the connection is closed
 *   /refuse       closes without a byte
 *   /reset        head and some bytes, then a reset
 *   /short        fewer bytes than promised
 *   /cut          ends within a chunk
 *   /bad-chunk    the size of a chunk is not a number
 *   /garbage      something other than HTTP
 *   /long-head    headers without end
 *   /hang         never responds
 *   /stall        head and one byte, then nothing
 *   /flood        bytes without end, as fast as they are read
 */
#ifndef PAL_TESTS_HTTP_SERVER_H
#define PAL_TESTS_HTTP_SERVER_H

#include <stdbool.h>

typedef struct http_server http_server;

http_server *http_server_start(void);
void http_server_stop(http_server *server);
int http_server_port(const http_server *server);

int http_server_connections(http_server *server); /* so far */
/* Waits until `count` clients have left in the middle of a response. */
bool http_server_wait_gone(http_server *server, int count);
/* Waits until `count` responses of /hang, /stall and /flood have begun. */
void http_server_wait_begun(http_server *server, int count);

#endif
