<?php
/** The parts of the object cache: encoding of values, keys, generations, and failing servers. */

declare(strict_types=1);

use Petasos\Objects\ApcuBackend;
use Petasos\Objects\Backend;
use Petasos\Objects\Codec;
use Petasos\Objects\Gone;
use Petasos\Objects\ObjectCache;
use Petasos\Objects\Router;

/** An object server in this process, which can be told to fail. */
final class Shelf implements Backend
{
    public array $texts = [];
    public bool $is_gone = false;
    public int $calls = 0;

    private Codec $codec;

    public function __construct(?Codec $codec = null)
    {
        $this->codec = $codec ?? new Codec('secret');
    }

    public function get(array $keys): array
    {
        $this->call();
        $found = [];
        foreach ($keys as $key) {
            [$is_ours, $value] = isset($this->texts[$key]) ? $this->codec->decode($this->texts[$key]) : [false, null];
            $found += $is_ours ? [$key => $value] : [];
        }
        return $found;
    }

    public function set(string $key, $value, int $seconds): bool
    {
        $this->call();
        $this->texts[$key] = $this->codec->encode($value);
        return true;
    }

    public function add(string $key, $value, int $seconds): bool
    {
        $this->call();
        return !isset($this->texts[$key]) && $this->set($key, $value, $seconds);
    }

    public function delete(string $key): bool
    {
        $this->call();
        $there = isset($this->texts[$key]);
        unset($this->texts[$key]);
        return $there;
    }

    public function increment(string $key, int $by): ?int
    {
        $value = $this->get([$key])[$key] ?? null;
        return is_int($value) && $this->set($key, $value + $by, 0) ? $value + $by : null;
    }

    private function call(): void
    {
        ++$this->calls;
        if ($this->is_gone) {
            throw new Gone('the shelf fell');
        }
    }
}

/** A cache as in the next request, with the same server. */
$request = static fn (Backend $shelf, string $site = 's', int $blog = 1, bool $many = false, array $map = ['*' => 'shelf']): ObjectCache => new ObjectCache(
    new Router($map, ['shelf' => static fn (): Backend => $shelf]),
    $site,
    $blog,
    $many,
);

return [
    'values come back as they were' => static function () use ($request): void {
        $object = (object) ['a' => [1, 2.5, null, true, "\x00\xff"]];
        $values = [0, 1, -1, PHP_INT_MAX, PHP_INT_MIN, 1.5, '', '1', '01', '-1', 'a', true, false, null, [], ['a' => [1]], $object, str_repeat('x', 100_000)];
        foreach ([new Shelf(), new ApcuBackend(new Codec('secret'))] as $shelf) {
            $site = bin2hex(random_bytes(4));
            foreach ($values as $number => $value) {
                $request($shelf, $site)->set("k$number", $value, 'g');
                $back = $request($shelf, $site)->get("k$number", 'g', false, $found);
                same($found, true, "found $number");
                is_object($value) ? same($back == $value, true) : same($back, $value, get_class($shelf) . " $number");
            }
        }
    },
    'a text that was not signed is a miss' => static function (): void {
        $codec = new Codec('secret');
        foreach (['', 'a', serialize('a'), str_repeat("\x00", 16) . serialize('a'), (new Codec('other'))->encode('a'), '1.5', '99999999999999999999', '+1'] as $text) {
            same($codec->decode($text), [false, null], $text);
        }
        $text = $codec->encode(['a']);
        same($codec->decode(substr($text, 0, -1)), [false, null]);
    },
    'APCu: what another site has written is a miss' => static function (): void {
        $key = 'petasos-test-' . bin2hex(random_bytes(4));
        $own = new ApcuBackend(new Codec('secret'));
        foreach (['text', serialize('text'), ['a'], new ArrayObject(), 1.5, true, (new Codec('other'))->encode('a')] as $number => $value) {
            apcu_store($key, $value, 10);
            same($own->get([$key]), [], "value $number");
        }
        $own->set($key, ['a'], 10);
        same([$own->get([$key]), (new ApcuBackend(new Codec('other')))->get([$key])], [[$key => ['a']], []]);
        $own->delete($key);
    },
    'objects are copies' => static function () use ($request): void {
        $cache = $request(new Shelf());
        $object = (object) ['a' => 1];
        $cache->set('k', $object);
        $object->a = 2;
        $cache->get('k')->a = 3;
        same($cache->get('k')->a, 1);
    },
    'add, replace, delete' => static function () use ($request): void {
        $shelf = new Shelf();
        $cache = $request($shelf);
        same($cache->replace('k', 1), false);
        same($cache->add('k', 1), true);
        same($cache->add('k', 2), false);
        same($request($shelf)->add('k', 2), false, 'another request');
        same($cache->replace('k', 3), true);
        same($request($shelf)->get('k'), 3);
        same($cache->delete('k'), true);
        same($cache->delete('k'), false);
        same($request($shelf)->get('k', '', false, $found), false);
        same($found, false);
    },
    'false and null are values' => static function () use ($request): void {
        $shelf = new Shelf();
        $request($shelf)->set('k', false);
        $cache = $request($shelf);
        same($cache->get('k', '', false, $found), false);
        same($found, true);
        same($cache->add('k', 1), false);
    },
    'several at once, in their order' => static function () use ($request): void {
        $shelf = new Shelf();
        $request($shelf)->set(1, 'one', 'g');
        $request($shelf)->set('b', 'two', 'g');
        $cache = $request($shelf);
        $cache->get('x', 'g');
        $calls = $shelf->calls;
        same($cache->get_multiple(['b', 2, 1], 'g'), ['b' => 'two', 2 => false, 1 => 'one']);
        same($shelf->calls - $calls, 1, 'one question');
    },
    'numbers' => static function () use ($request): void {
        foreach ([new Shelf(), new ApcuBackend(new Codec('secret'))] as $shelf) {
            $site = bin2hex(random_bytes(4));
            $cache = $request($shelf, $site);
            same($cache->incr('n'), false);
            $cache->set('n', 5);
            same([$cache->incr('n'), $cache->incr('n', 10), $cache->decr('n', 2)], [6, 16, 14]);
            same($request($shelf, $site)->get('n'), 14);
            same($cache->decr('n', 100), 0);
            $cache->set('n', 'no number');
            same($cache->incr('n', 3), 3);
            $cache->set('n', '7');
            same($cache->incr('n'), 8);
        }
    },
    'another request counts on' => static function () use ($request): void {
        $shelf = new Shelf();
        $one = $request($shelf);
        $other = $request($shelf);
        $one->set('n', 1);
        $other->get('n');
        same([$one->incr('n'), $other->incr('n'), $one->incr('n')], [2, 3, 4]);
    },
    'force asks the server' => static function () use ($request): void {
        $shelf = new Shelf();
        $one = $request($shelf);
        $one->set('k', 1);
        $request($shelf)->set('k', 2);
        same([$one->get('k'), $one->get('k', '', true)], [1, 2]);
    },
    'a group is flushed for everybody, and no other' => static function () use ($request): void {
        $shelf = new Shelf();
        $one = $request($shelf);
        $one->set('k', 1, 'a');
        $one->set('k', 2, 'b');
        same($request($shelf)->flush_group('a'), true);
        $two = $request($shelf);
        same([$two->get('k', 'a'), $two->get('k', 'b')], [false, 2]);
        $two->set('k', 3, 'a');
        same($request($shelf)->get('k', 'a'), 3);
    },
    'everything is flushed, but not of another site' => static function () use ($request): void {
        $shelf = new Shelf();
        $request($shelf)->set('k', 1, 'a');
        $request($shelf, 'other')->set('k', 2, 'a');
        $cache = $request($shelf);
        $cache->get('k', 'a');
        same($cache->flush(), true);
        same([$cache->get('k', 'a'), $request($shelf)->get('k', 'a'), $request($shelf, 'other')->get('k', 'a')], [false, false, 2]);
    },
    'every kind of server is flushed' => static function (): void {
        $shelves = ['one' => new Shelf(), 'two' => new Shelf()];
        $makers = array_map(static fn (Shelf $shelf): Closure => static fn (): Shelf => $shelf, $shelves);
        $request = static fn (): ObjectCache => new ObjectCache(new Router(['a' => 'one', '*' => 'two'], $makers), 's', 1, false);
        $request()->set('k', 1, 'a');
        $request()->set('k', 2, 'b');
        same([count($shelves['one']->texts) > 0, count($shelves['two']->texts) > 0], [true, true]);
        $request()->flush();
        same([$request()->get('k', 'a'), $request()->get('k', 'b')], [false, false]);
    },
    'a lost generation brings nothing back' => static function () use ($request): void {
        $shelf = new Shelf();
        $request($shelf)->set('k', 1, 'a');
        $shelf->texts = array_filter($shelf->texts, static fn (string $key): bool => !str_contains($key, 'generation'), ARRAY_FILTER_USE_KEY);
        same($request($shelf)->get('k', 'a'), false);
    },
    'blogs and global groups' => static function () use ($request): void {
        $shelf = new Shelf();
        $cache = $request($shelf, 's', 1, true);
        $cache->add_global_groups(['users']);
        $cache->set('k', 'one', 'posts');
        $cache->set('k', 'all', 'users');
        $cache->switch_to_blog(2);
        same([$cache->get('k', 'posts'), $cache->get('k', 'users')], [false, 'all']);
        $cache->set('k', 'two', 'posts');
        $cache->flush_group('posts');
        $cache->switch_to_blog(1);
        same($cache->get('k', 'posts'), 'one');
        $single = $request($shelf, 't');
        $single->set('k', 1, 'posts');
        $single->switch_to_blog(2);
        same($single->get('k', 'posts'), 1, 'no network');
    },
    'groups of this request only' => static function () use ($request): void {
        $shelf = new Shelf();
        $cache = $request($shelf);
        $cache->add_non_persistent_groups(['counts']);
        $cache->set('k', 1, 'counts');
        same([$cache->get('k', 'counts'), $shelf->calls], [1, 0]);
        $none = $request($shelf, 's', 1, false, ['*' => 'none', 'posts' => 'shelf']);
        $none->set('k', 1, 'options');
        same([$none->get('k', 'options'), $shelf->calls], [1, 0]);
        $none->set('k', 1, 'posts');
        same($shelf->calls > 0, true);
    },
    'a server that goes away takes nothing of this request with it' => static function () use ($request): void {
        $shelf = new Shelf();
        $cache = $request($shelf);
        $cache->set('k', 1);
        $shelf->is_gone = true;
        same([$cache->get('k'), $cache->set('l', 2), $cache->get('l'), $cache->add('l', 3), $cache->incr('l'), $cache->get('m')], [1, true, 2, false, 3, false]);
        same($cache->router->failures(), ['shelf' => 'the shelf fell']);
        $calls = $shelf->calls;
        $cache->set('n', 1);
        $cache->flush();
        same($shelf->calls, $calls, 'it is not asked again');
        same($cache->get('n'), false, 'flushed');
    },
    'a server that cannot be made' => static function (): void {
        $cache = new ObjectCache(new Router(['*' => 'x'], ['x' => static function (): void {
            throw new Gone('never there');
        }]), 's', 1, false);
        same([$cache->set('k', 1), $cache->get('k'), $cache->router->failures()], [true, 1, ['x' => 'never there']]);
    },
    'a kind that nobody knows is said' => static function (): void {
        $router = new Router(['*' => 'memcache']);
        same($router->backend('posts'), null);
        same(str_contains($router->failures()['memcache'], 'memcached'), true);
    },
    'keys that are none, long keys and odd keys' => static function () use ($request): void {
        $shelf = new Shelf();
        $cache = $request($shelf);
        same([$cache->set('', 1), $cache->get(' '), $cache->set(0, 'zero')], [false, false, true]);
        same($request($shelf)->get(0), 'zero');
        foreach ([str_repeat('k', 500), "a b\n", 'ä'] as $key) {
            $cache->set($key, $key, 'g');
            same($request($shelf)->get($key, 'g'), $key);
        }
        foreach (array_keys($shelf->texts) as $key) {
            same(strlen($key) <= 250 && preg_match('/^[\x21-\x7e]+$/D', $key) === 1, true, $key);
        }
        same($request($shelf)->get(str_repeat('k', 499) . 'l', 'g'), false);
    },
];
