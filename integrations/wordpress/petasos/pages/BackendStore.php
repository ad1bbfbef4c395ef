<?php
/**
 * Pages in a server of objects, where `PETASOS_OBJECTS` has a kind for the group `petasos-pages`.
 *
 * Invariant: the server bounds the pages and makes room. The log is changed by one process at a time; a server that is
 * gone, or has lost the log, has no page that may be used.
 */

declare(strict_types=1);

namespace Petasos\Pages;

use Petasos\Objects\Backend;
use Petasos\Objects\Gone;

final class BackendStore implements Store
{
    /** How often and how long to wait for who changes the log: two seconds in all. */
    private const LOCK_TRIES = 200;
    private const LOCK_PAUSE_US = 10_000;

    /** A lock whose owner died ends by itself. In seconds. */
    private const LOCK_LIFE = 5;

    public function __construct(private readonly Backend $backend, private readonly string $prefix)
    {
    }

    public function log(): ?PurgeLog
    {
        $text = $this->text('purges');
        $log = $text === null ? null : PurgeLog::decode($text);
        return $log ?? $this->changeLog(static function (PurgeLog $log): void {
        });
    }

    public function read(string $key): ?string
    {
        return $this->text('page:' . hash('sha256', $key));
    }

    public function write(string $key, string $text, int $seconds): void
    {
        try {
            $this->backend->set("$this->prefix:page:" . hash('sha256', $key), $text, $seconds);
        } catch (Gone) {
            // The next visitor's page is made anew.
        }
    }

    public function purge(array $tags): bool
    {
        return $this->changeLog(static fn (PurgeLog $log) => $log->purge($tags)) !== null;
    }

    public function remove(): void
    {
        // The server forgets the pages at the end of their lives; without the log none may be used.
        try {
            $this->backend->delete("$this->prefix:purges");
        } catch (Gone) {
            return;
        }
    }

    private function text(string $name): ?string
    {
        try {
            $text = $this->backend->get(["$this->prefix:$name"])["$this->prefix:$name"] ?? null;
        } catch (Gone) {
            return null;
        }
        return is_string($text) ? $text : null;
    }

    private function changeLog(callable $change): ?PurgeLog
    {
        try {
            for ($try = 0; !$this->backend->add("$this->prefix:lock", 1, self::LOCK_LIFE); ++$try) {
                if ($try === self::LOCK_TRIES) {
                    return null;
                }
                usleep(self::LOCK_PAUSE_US);
            }
            $text = $this->text('purges');
            $log = ($text === null ? null : PurgeLog::decode($text)) ?? PurgeLog::fresh((int) (microtime(true) * 1e6));
            $change($log);
            $written = $this->backend->set("$this->prefix:purges", $log->encode(), 0);
            $this->backend->delete("$this->prefix:lock");
            return $written ? $log : null;
        } catch (Gone) {
            return null;
        }
    }
}
