<?php
/** Requests to a server that may be slow, silent, or not speak HTTP. */

declare(strict_types=1);

use Petasos\Http;

/**
 * Starts a server process that answers one request with this text, or never.
 *
 * @return array{0: string, 1: resource} its address and the process
 */
function answers(string $text): array
{
    $code = sprintf(
        '$s = stream_socket_server("tcp://127.0.0.1:0"); echo stream_socket_get_name($s, false), "\n";
        $c = stream_socket_accept($s, 20); $got = ""; while (!str_contains($got, "\r\n\r\n")) { $got .= fread($c, 9999); }
        fwrite($c, str_replace("{got}", strtr($got, "\r\n", "|/"), %s)); %s',
        var_export($text, true),
        $text === '' ? 'sleep(20);' : ''
    );
    $process = proc_open([PHP_BINARY, '-r', $code], [1 => ['pipe', 'w']], $pipes);
    return ['http://' . trim((string) fgets($pipes[1])), $process];
}

$fails = static function (callable $ask): string {
    try {
        $ask();
    } catch (RuntimeException $error) {
        return $error->getMessage();
    }
    return 'no error';
};

/** The error of a purge of these tags by a new process, at an edge with this address and a token. */
function purgeError(string $address, array $tags): string
{
    $code = sprintf(
        'require %s; const PETASOS_EDGE = %s; const PETASOS_TOKEN = "t0ken";
        function home_url() { return "http://a.test/"; } function wp_parse_url($url) { return parse_url($url); }
        echo Petasos\\Edge::all()[0]->purge(json_decode(stream_get_contents(STDIN)));',
        var_export(dirname(__DIR__) . '/petasos/src/autoload.php', true),
        var_export($address, true)
    );
    $process = proc_open([PHP_BINARY, '-r', $code], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    fwrite($pipes[0], json_encode($tags));
    fclose($pipes[0]);
    $error = (string) stream_get_contents($pipes[1]);
    proc_close($process);
    return $error;
}

return [
    'the token precedes a long list of tags' => static function (): void {
        [$address, $process] = answers("HTTP/1.1 418 No\r\n\r\n{got}");
        $error = purgeError($address, array_map(static fn (int $n): string => "number-$n", range(1, 4000)));
        same(str_starts_with($error, 'it answered 418 PURGEKEYS / HTTP/1.1|/Authorization: Bearer t0ken|/'), true, $error);
        proc_close($process);
    },
    'an answer is read, however it ends' => static function (): void {
        foreach (["HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: 1\r\na: 2\r\n\r\nabc", "HTTP/1.0 200 OK\r\nA: 1, 2\r\n\r\nabc"] as $text) {
            [$address, $process] = answers($text);
            $answer = Http::ask('GET', $address, '/', [], '', 10);
            same([$answer['status'], $answer['headers']['a'], $answer['body']], [200, '1, 2', 'abc']);
            proc_close($process);
        }
    },
    'a request is sent as it was meant' => static function (): void {
        [$address, $process] = answers("HTTP/1.1 200 OK\r\n\r\n{got}");
        $answer = Http::ask('PURGEKEYS', $address, '/', ['Host' => 'a.test', 'xkey-purge' => 'a b'], '', 10);
        same(str_starts_with($answer['body'], 'PURGEKEYS / HTTP/1.1|/Host: a.test|/xkey-purge: a b|/Connection: close|/'), true, $answer['body']);
        proc_close($process);
    },
    'silence has a limit' => static function () use ($fails): void {
        [$address, $process] = answers('');
        same($fails(static fn () => Http::ask('GET', $address, '/', [], '', 0.2)), 'no answer in time');
        proc_terminate($process);
    },
    'what is no HTTP, no server, no address' => static function () use ($fails): void {
        [$address, $process] = answers("hello\r\n\r\n");
        same($fails(static fn () => Http::ask('GET', $address, '/', [], '', 10)), 'what answers there does not speak HTTP');
        proc_close($process);
        same(str_starts_with($fails(static fn () => Http::ask('GET', 'http://127.0.0.1:1', '/', [], '', 1)), 'cannot connect to 127.0.0.1:1'), true);
        foreach (['', '127.0.0.1:80', 'ftp://127.0.0.1', 'http://'] as $address) {
            same(str_contains($fails(static fn () => Http::ask('GET', $address, '/', [], '', 1)), 'no address'), true, $address);
        }
    },
    'a line break never gets into a head' => static function () use ($fails): void {
        foreach ([['GET', "/\r\nX: y", []], ["GET\n", '/', []], ['GET', '/', ['A' => "b\r\nC: d"]], ['GET', '/', ["A\nB" => 'c']], ['GET', '/', ['A' => "b\r\n\r\n"]]] as [$method, $target, $headers]) {
            [$address, $process] = answers("HTTP/1.1 200 OK\r\n\r\n{got}");
            same($fails(static fn () => Http::ask($method, $address, $target, $headers, '', 5)), 'a header would have a line break in it');
            proc_terminate($process);
        }
    },
];
