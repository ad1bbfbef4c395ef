<?php
/**
 * Storage of whole pages. Each kind has its own file.
 *
 * Invariant: a reader gets a complete text or nothing. A failed write is ignored, except in
 * `purge`: its caller must know that a purge was not stored.
 */

declare(strict_types=1);

namespace Petasos\Pages;

interface Store
{
    /**
     * The purge log, created if missing. Null if it cannot be created; then no page may be used or
     * stored.
     */
    public function log(): ?PurgeLog;

    /** The text stored under a key. */
    public function read(string $key): ?string;

    /** Stores a text for `$seconds`. Evicts others if necessary. */
    public function write(string $key, string $text, int $seconds): void;

    /**
     * Records a purge of these tags, or of everything if there is none.
     *
     * @param  list<string> $tags
     * @return bool whether the purge is in force
     */
    public function purge(array $tags): bool;

    /** Removes all pages, and the store itself. */
    public function remove(): void;
}
