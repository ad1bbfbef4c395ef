<?php
/**
 * A server or memory that stores objects beyond a request. Each kind has its own file.
 *
 * Invariant: a missing key, or an untrusted value, is a miss and no error. A server that cannot be
 * reached throws `Gone` once and is not used again in this request.
 */

declare(strict_types=1);

namespace Petasos\Objects;

interface Backend
{
    /**
     * Reads several values.
     *
     * @param  list<string> $keys
     * @return array<string, mixed> the values found
     * @throws Gone
     */
    public function get(array $keys): array;

    /**
     * Stores a value.
     *
     * @param  int $seconds lifetime; 0: until the server evicts it
     * @throws Gone
     */
    public function set(string $key, $value, int $seconds): bool;

    /**
     * Stores a value if the key is missing; otherwise returns false.
     *
     * @throws Gone
     */
    public function add(string $key, $value, int $seconds): bool;

    /** @throws Gone */
    public function delete(string $key): bool;

    /**
     * Adds to an existing integer atomically; null if there is none.
     *
     * @throws Gone
     */
    public function increment(string $key, int $by): ?int;
}
