<?php
/** Lists of tags and their bounds. */

declare(strict_types=1);

use Petasos\TagList;

$list = static function (array $tags, string $prefix = ''): TagList {
    $list = new TagList($prefix);
    $list->add(...$tags);
    return $list;
};

return [
    'each tag once, as a word' => static function () use ($list): void {
        same($list(['a', 'b', 'a', "c d\r\ne"])->header(100), 'a b c-d--e');
        same(strlen($list([str_repeat('x', 500)])->header(1000)), 128);
    },
    'numbers are texts' => static function () use ($list): void {
        same($list(['404'])->all(), ['404']);
        same($list(['404'])->purge(9), ['404']);
    },
    'a long list names families, the largest first' => static function () use ($list): void {
        $tags = ['site', 'term-1', ...array_map(static fn (int $n): string => "post-$n", range(1, 50))];
        same($list($tags)->header(30), 'site term-1 posts');
        same($list($tags)->header(18), 'site term-1 posts');
        same($list($tags)->header(16), 'site posts terms');
    },
    'a list that is too long even so has no value' => static function () use ($list): void {
        same($list(['site', 'type-' . str_repeat('x', 50)])->header(20), null);
    },
    'a purge of any tag matches the shortened list' => static function () use ($list): void {
        $own = array_map(static fn (int $n): string => "mine-$n", range(1, 400));
        foreach ([['site', 'post-1', ...$own], ['site', 'post-1', 'post-2', 'mine-1']] as $tags) {
            foreach ([20, 3000] as $octets_max) {
                $value = $list($tags)->header($octets_max);
                foreach ($value === null ? [] : array_diff($tags, ['site']) as $tag) {
                    same(array_intersect($list([$tag])->purge(10), explode(' ', $value)) === [], false, "$tag in $value");
                }
            }
        }
        same($list(['site', 'post-1', ...$own])->header(3000), null);
    },
    'who purges a member purges its family' => static function () use ($list): void {
        same($list(['post-7', 'front'])->purge(10), ['post-7', 'front', 'posts']);
        same($list(['comments-7'])->purge(10), ['comments-7', 'posts']);
        same($list(['list-term-7', 'tax-category', 'menu-3'])->purge(10), ['list-term-7', 'tax-category', 'menu-3', 'lists', 'terms', 'menus']);
    },
    'many purges are the whole site, and the site includes the rest' => static function () use ($list): void {
        same($list(array_map(static fn (int $n): string => "post-$n", range(1, 11)))->purge(10), ['site']);
        same($list(['post-1', 'site'])->purge(10), ['site']);
    },
    'a prefix is of every tag and family' => static function () use ($list): void {
        same($list(['post-7'], 'b2.')->purge(10), ['b2.post-7', 'b2.posts']);
        same($list(['post-7', 'site'], 'b2.')->purge(10), ['b2.site']);
        same($list(['post-7', 'post-8', 'site'], 'b2.')->header(20), 'b2.site b2.posts');
    },
    'every family is named by purging any of its members' => static function () use ($list): void {
        // A page with too many tags of every kind carries families only. A purge of any tag must
        // still match it.
        $tags = ['post-1', 'link-1', 'comments-1', 'term-1', 'list-term-1', 'author-1', 'menu-1', 'tax-x'];
        $families = explode(' ', $list($tags)->header(45));
        foreach ($tags as $tag) {
            same(array_intersect($list([$tag])->purge(10), $families) === [], false, $tag);
        }
    },
];
