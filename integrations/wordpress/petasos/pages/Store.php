<?php
/**
 * Where finished pages are kept. One file for each way.
 *
 * Invariant: a reader gets a text that was written whole, or nothing. What cannot be written is not kept, and nobody
 * hears of it but the caller of `purge`: a purge that is not written down must be known.
 */

declare(strict_types=1);

namespace Petasos\Pages;

interface Store
{
    /** The log of purges; made if it is not there. Null if it cannot be made: then nothing may be used or kept. */
    public function log(): ?PurgeLog;

    /** The text kept under a key. */
    public function read(string $key): ?string;

    /** Keeps a text for `$seconds`, and makes room where there is none. */
    public function write(string $key, string $text, int $seconds): void;

    /**
     * Notes a purge of these tags; of everything if there is none.
     *
     * @param  list<string> $tags
     * @return bool whether it is in force
     */
    public function purge(array $tags): bool;

    /** Removes everything, the store itself included. */
    public function remove(): void;
}
