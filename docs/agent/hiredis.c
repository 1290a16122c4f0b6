/* A job under a lock, with hiredis. Build it: cc hiredis.c -lhiredis; run it: ./a.out /run/dlock/agent.sock */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* An answer that is a number, 0 for null. Anything else is an error. */
static long long number(redisContext *agent, redisReply *reply) {
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "%s\n", reply ? reply->str : agent->errstr);
        exit(1);
    }
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return value;
}

int main(int argc, char **argv) {
    redisContext *agent = redisConnectUnix(argc > 1 ? argv[1] : "/run/dlock/agent.sock");
    if (agent == NULL || agent->err) {
        fprintf(stderr, "%s\n", agent ? agent->errstr : "no memory");
        return 1;
    }
    unsigned char token[16];
    if (getrandom(token, sizeof token, 0) != sizeof token) return 1;
    size_t size = sizeof token; /* any bytes will do */

    long long fence = number(agent, redisCommand(agent, "DLOCK.ACQUIRE job:42 %b 30000 WAIT 10000", token, size));
    if (fence == 0) {
        fprintf(stderr, "another client holds the lock\n");
        return 1;
    }
    printf("held with the fence %lld\n", fence);

    /* In work that takes long, from time to time: 1, or the lock is lost and the work has to stop. */
    if (number(agent, redisCommand(agent, "DLOCK.EXTEND job:42 %b 30000", token, size)) != 1) {
        fprintf(stderr, "the lock is lost\n");
        return 1;
    }
    number(agent, redisCommand(agent, "DLOCK.RELEASE job:42 %b", token, size));
    redisFree(agent);
    return 0;
}
