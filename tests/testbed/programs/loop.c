/* A training-like loop over MPI: compute for a while, then a few collectives, again and again.
 *
 *     loop COLLECTIVES FLOATS TURNS TURN_MS FOLDER
 *
 * COLLECTIVES is a list such as reduce_scatter,allgather. Each rank appends one line per turn to
 * FOLDER/clock-RANK: when the turn began, when communication began and when it had ended here,
 * in nanoseconds since the epoch.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JITTER 0.01 /* of a turn, equal on all ranks */
#define LEAST_SHARE 0.75 /* of a turn: no step follows the one before at once */
enum { CHUNKS = 4, COLUMNS = 2, MOST_CHILDREN = 3, WAIT_NS = 50000 };

static int rank, ranks, floats;
static float *mine, *theirs;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Until the turn's gradients are there. Accelerators take as long for every step; what else runs on
 * this machine must not make steps longer, and so a late turn is made up for, if only little by
 * little. */
static void compute(int turn_ms) {
    static long long due;
    long long least = now_ns() + (long long)(turn_ms * 1e6 * LEAST_SHARE);
    double jitter = JITTER * (2.0 * rand() / RAND_MAX - 1);
    due += (long long)(turn_ms * 1e6 * (1 + jitter));
    if (due < least) due = least;
    struct timespec t = {due / 1000000000L, due % 1000000000L};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL);
}

/* OpenMPI calls this whenever it waits. There are more ranks than cores: those that wait must leave
 * the cores to those that have something to do, which a mere yield does not. */
int sched_yield(void) {
    struct timespec t = {0, WAIT_NS};
    return nanosleep(&t, NULL);
}

static void reduce_scatter(void) {
    int *counts = malloc(ranks * sizeof *counts);
    for (int i = 0; i < ranks; i++) counts[i] = floats / ranks;
    MPI_Reduce_scatter(mine, theirs, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    free(counts);
}

/* Exchange with the four neighbours on a torus of two columns' width: not training. */
static void halo(void) {
    MPI_Comm grid;
    int dims[2] = {ranks / COLUMNS, COLUMNS}, wraps[2] = {1, 0}, n = 0;
    MPI_Request waiting[8];
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, wraps, 0, &grid);
    for (int axis = 0; axis < 2; axis++) {
        int down, up, each = floats / 8;
        MPI_Cart_shift(grid, axis, 1, &down, &up);
        MPI_Irecv(theirs + 2 * axis * each, each, MPI_FLOAT, down, axis, grid, &waiting[n++]);
        MPI_Irecv(theirs + (2 * axis + 1) * each, each, MPI_FLOAT, up, 2 + axis, grid,
                  &waiting[n++]);
        MPI_Isend(mine, each, MPI_FLOAT, up, axis, grid, &waiting[n++]);
        MPI_Isend(mine, each, MPI_FLOAT, down, 2 + axis, grid, &waiting[n++]);
    }
    MPI_Waitall(n, waiting, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&grid);
}

/* Everyone pushes to rank 0 and pulls from it: not training as it is done today. */
static void server(void) {
    if (rank) {
        MPI_Send(mine, floats, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
        MPI_Recv(theirs, floats, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (int i = 1; i < ranks; i++)
        MPI_Recv(theirs, floats, MPI_FLOAT, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 1; i < ranks; i++) MPI_Send(mine, floats, MPI_FLOAT, i, 0, MPI_COMM_WORLD);
}

/* Parent of `node` in a binary tree over `ranks` nodes with odd ones as leaves, -1 at the root. */
static int parent_of(int node) {
    if (node == 0) return -1;
    int bit = node & -node;
    int up = (node ^ bit) | (bit << 1);
    return up < ranks ? up : node ^ bit;
}

/* In the second tree, mirrored for even numbers of ranks, leaves of the first are inner nodes. */
static int second_parent_of(int node) {
    int up = parent_of(ranks - 1 - node);
    return up < 0 ? -1 : ranks - 1 - up;
}

/* An all-reduce over two binary trees, half of the data each, in chunks: up, then down. */
static void double_tree(void) {
    int each = floats / 2 / CHUNKS, sent = 0;
    MPI_Request *sends = malloc(2 * CHUNKS * (MOST_CHILDREN + 1) * sizeof *sends);
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (int tree = 0; tree < 2; tree++) {
            int (*parent)(int) = tree ? second_parent_of : parent_of;
            float *part = mine + (tree * CHUNKS + chunk) * each;
            for (int child = 0; child < ranks; child++)
                if (parent(child) == rank) {
                    MPI_Recv(theirs, each, MPI_FLOAT, child, tree, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
                    for (int i = 0; i < each; i++) part[i] = (part[i] + theirs[i]) / 2;
                }
            if (parent(rank) >= 0)
                MPI_Isend(part, each, MPI_FLOAT, parent(rank), tree, MPI_COMM_WORLD,
                          &sends[sent++]);
        }
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
    sent = 0;
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (int tree = 0; tree < 2; tree++) {
            int (*parent)(int) = tree ? second_parent_of : parent_of;
            float *part = mine + (tree * CHUNKS + chunk) * each;
            if (parent(rank) >= 0)
                MPI_Recv(part, each, MPI_FLOAT, parent(rank), 2 + tree, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (int child = 0; child < ranks; child++)
                if (parent(child) == rank)
                    MPI_Isend(part, each, MPI_FLOAT, child, 2 + tree, MPI_COMM_WORLD,
                              &sends[sent++]);
        }
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
    free(sends);
}

static void communicate(const char *collective) {
    if (!strcmp(collective, "allreduce"))
        MPI_Allreduce(mine, theirs, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(collective, "reduce_scatter"))
        reduce_scatter();
    else if (!strcmp(collective, "allgather"))
        MPI_Allgather(mine, floats / ranks, MPI_FLOAT, theirs, floats / ranks, MPI_FLOAT,
                      MPI_COMM_WORLD);
    else if (!strcmp(collective, "reduce"))
        MPI_Reduce(mine, theirs, floats, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (!strcmp(collective, "bcast"))
        MPI_Bcast(mine, floats, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (!strcmp(collective, "alltoall"))
        MPI_Alltoall(mine, floats / ranks, MPI_FLOAT, theirs, floats / ranks, MPI_FLOAT,
                     MPI_COMM_WORLD);
    else if (!strcmp(collective, "double_tree"))
        double_tree();
    else if (!strcmp(collective, "halo"))
        halo();
    else if (!strcmp(collective, "server"))
        server();
    else {
        fprintf(stderr, "no such collective: %s\n", collective);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6) MPI_Abort(MPI_COMM_WORLD, 2);
    int turns = atoi(argv[3]), turn_ms = atoi(argv[4]);
    char path[4096], names[256];
    floats = atoi(argv[2]);
    mine = calloc(floats, sizeof *mine);
    theirs = calloc(floats, sizeof *theirs);
    snprintf(path, sizeof path, "%s/clock-%d", argv[5], rank);
    FILE *clock = fopen(path, "a");
    if (!mine || !theirs || !clock) MPI_Abort(MPI_COMM_WORLD, 2);
    srand(1);
    for (int turn = 0; turn < turns; turn++) {
        long long began = now_ns();
        compute(turn_ms);
        long long ready = now_ns();
        snprintf(names, sizeof names, "%s", argv[1]);
        for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) communicate(name);
        fprintf(clock, "%lld %lld %lld\n", began, ready, now_ns());
        fflush(clock);
    }
    fclose(clock);
    MPI_Finalize();
    return 0;
}
