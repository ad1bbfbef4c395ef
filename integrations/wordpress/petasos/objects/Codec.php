<?php
/**
 * Converts values to strings for servers that store strings.
 *
 * Invariant: only a string that was signed with the same secret is unserialized. Otherwise an
 * attacker with write access to the server could instantiate any object. Integers are stored as
 * digits, so that a server can add to them, and digits are only ever read as integers. Pure.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class Codec
{
    /** Length of the signature before a serialized value, in bytes. */
    private const SIGNATURE_OCTETS = 16;

    private string $secret;

    public function __construct(string $secret)
    {
        $this->secret = $secret;
    }

    public function encode($value): string
    {
        if (is_int($value)) {
            return (string) $value;
        }
        $text = serialize($value);
        return $this->sign($text) . $text;
    }

    /** @return array{0: bool, 1: mixed} whether the text is valid, and its value */
    public function decode(string $text): array
    {
        if (preg_match('/^-?\d{1,19}$/D', $text) && (string) (int) $text === $text) {
            return [true, (int) $text];
        }
        // PHP 7.4 returns false for a text that is too short.
        $value = (string) substr($text, self::SIGNATURE_OCTETS);
        if (!hash_equals($this->sign($value), substr($text, 0, self::SIGNATURE_OCTETS))) {
            return [false, null];
        }
        return [true, unserialize($value)];
    }

    private function sign(string $text): string
    {
        return substr(hash_hmac('sha256', $text, $this->secret, true), 0, self::SIGNATURE_OCTETS);
    }
}
