<?php
/**
 * Values as texts for servers that keep texts.
 *
 * Invariant: only a text that was made with the same secret is unserialized, so that whoever can write to the server
 * cannot have objects of his choice made. Whole numbers are kept as digits, so that a server can add to them; nothing
 * but a number is ever read from digits. Pure.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class Codec
{
    /** Octets of the signature before a serialized value. */
    private const SIGNATURE_OCTETS = 16;

    public function __construct(private readonly string $secret)
    {
    }

    public function encode(mixed $value): string
    {
        if (is_int($value)) {
            return (string) $value;
        }
        $text = serialize($value);
        return $this->sign($text) . $text;
    }

    /** @return array{0: bool, 1: mixed} whether it is a value of ours, and the value */
    public function decode(string $text): array
    {
        if (preg_match('/^-?\d{1,19}$/D', $text) && (string) (int) $text === $text) {
            return [true, (int) $text];
        }
        $value = substr($text, self::SIGNATURE_OCTETS);
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
