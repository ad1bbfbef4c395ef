<?php
/**
 * A server or memory that keeps objects beyond a request. One file for each kind.
 *
 * Invariant: a key that is not there, or whose value cannot be trusted, is a miss, never an error. A server that cannot
 * be reached throws `Gone`, once, and is not asked again within the request.
 */

declare(strict_types=1);

namespace Petasos\Objects;

interface Backend
{
    /**
     * @param  list<string> $keys
     * @return array<string, mixed> what was found
     * @throws Gone
     */
    public function get(array $keys): array;

    /**
     * @param  int $seconds how long; 0: until room is needed
     * @throws Gone
     */
    public function set(string $key, mixed $value, int $seconds): bool;

    /**
     * Sets what is not there; false if it is.
     *
     * @throws Gone
     */
    public function add(string $key, mixed $value, int $seconds): bool;

    /** @throws Gone */
    public function delete(string $key): bool;

    /**
     * Adds to a whole number that is there, at once for everybody; null if there is none.
     *
     * @throws Gone
     */
    public function increment(string $key, int $by): ?int;
}
