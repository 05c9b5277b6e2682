#!/usr/bin/env perl
# Reads lists of mutations, and edits the source; `ci/mutations` calls it. The head of `list` describes their form.
#
#     edit.pl names LIST...          prints the name, the check and the file of each mutation
#     edit.pl apply NAME LIST...     prints the mutated file
#     edit.pl applies LIST...        prints the mutations that do not apply, or would not if locals had other names
use strict;
use warnings;

my ($command, @arguments) = @ARGV;
my $only = $command eq 'apply' ? shift @arguments : undef;

# White space and comments may stand between any two tokens.
my $gap = qr{(?:\s|//[^\n]*\n)*+};
my $block = qr{(\{(?:[^{}]++|(?-1))*+\})};
my $parens = qr{(\((?:[^()]++|(?-1))*+\))};
my $tokens = qr{"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'|'?\$?\w+|\.\.\.|::|\.\.=?|[-+*/%&|^!=<>]=|->|=>|&&|\|\||[^\s\w]}s;
# A lower-case word that may be a local.
my $local = qr{(?!(?:as|async|await|bool|break|const|continue|crate|dyn|else|false|fn|for|i64|if|impl|in|let|loop|match|mod
    |move|mut|pub|ref|return|self|static|str|struct|super|true|type|u8|u16|u32|u64|u128|unsafe|use|usize|where|while|_)\b)[a-z_]\w*}x;
# The fewest tokens whose brackets are closed, and the definition that this needs at the end of a regular expression.
my $any = '((?:[^()\[\]{}]|(?&closed))*?)';
my $inside = '(?:[^()\[\]{}]++|(?&closed))*+';
my $closed = "(?(DEFINE)(?<closed>\\($inside\\)|\\[$inside\\]|\\{$inside\\}))";

# Splits code into tokens. Returns each with whether it names a local: any lower-case word that is no member, path, call,
# macro or field. `$name` is a local in any place.
sub tokenise {
    my @words = $_[0] =~ /$tokens/g;
    return map {
        my ($before, $word, $after) = ($_ ? $words[$_ - 1] : '', $words[$_], $words[$_ + 1] // '');
        my $is_local = $word =~ s/^\$// || $word =~ /^$local$/ && $before !~ /^(\.|::)$/ && $after !~ /^(\(|::?|!)$/;
        [$word, $is_local];
    } 0 .. $#words;
}

# Returns the regular expression of a pattern, and the names of its locals in the order of their groups.
sub compile {
    my ($pattern, $locals) = @_;
    my @parts = map {
        my ($word, $is_local) = @$_;
        if ($word eq '...') { push @$locals, '...'; $any }
        elsif ($is_local && grep { $_ eq $word } @$locals) { "\\b\\k<$word>\\b" }
        elsif ($is_local) { push @$locals, $word; "\\b(?<$word>$local)\\b" }
        elsif ($word =~ /^\w/) { "\\b\Q$word\E\\b" }
        else { "\Q$word\E" }
    } tokenise($pattern);
    my $all = join $gap, @parts;
    return qr/$all$closed/;
}

# Replaces what a pattern matches in `$$item`. Returns whether it matches exactly once or, with `$all`, at all.
sub replace {
    my ($item, $pattern, $new, $all) = @_;
    my @locals;
    my $regex = compile($pattern, \@locals);
    my $count = 0;
    $count++ while $$item =~ /$regex/g;
    return 0 unless $all ? $count : $count == 1;
    $$item =~ s{$regex}{
        my @found = map { substr $$item, $-[$_], $+[$_] - $-[$_] } 1 .. $#locals + 1;
        my (%named, @any);
        for (0 .. $#locals) { if ($locals[$_] eq '...') { push @any, $found[$_] } else { $named{$locals[$_]} = $found[$_] } }
        my $text = $new;
        $text =~ s/($tokens)/\x01$1\x02/g;
        my @words = tokenise($new);
        $text =~ s{\x01.*?\x02}{
            my ($word, $is_local) = @{shift @words};
            $word eq '...' ? shift @any : $is_local ? $named{$word} // $word : $word
        }gse;
        $text
    }ge;
    return 1;
}

# Returns the position and the length of a function in a source, or of `Type::function` in the blocks of its type.
sub find_item {
    my ($source, $item) = @_;
    return (0, length $source) if $item eq '*';
    my ($type, $name) = $item =~ /^(?:(\w+)::)?(\w+)$/ or return;
    my @blocks = ([0, $source]);
    if ($type) {
        @blocks = ();
        push @blocks, [$-[1], $1] while $source =~ /^(?:unsafe )?impl\b[^{]*\b$type\b[^{]*$block/gm;
    }
    my @found;
    for (@blocks) {
        my ($start, $text) = @$_;
        push @found, [$start + $-[0], $+[0] - $-[0]] while $text =~ /\bfn\s+$name\b[^(]*$parens(?:[^{;]|;\s*\w+\])*+$block/g;
    }
    return @found == 1 ? @{$found[0]} : ();
}

# Gives each local of an item another name, and begins a line at each token.
sub disguise {
    my ($item) = @_;
    $item =~ s{//[^\n]*}{}g;
    my ($signature) = $item =~ /^([^{]*)/;
    my %bound = map { $_ => 1 } $signature =~ /\b([a-z_]\w*):(?!:)/g;
    for my $pattern ($item =~ /\blet\b([^=;]*)=/g, $item =~ /\bfor\b([^{]*?)\bin\b/g, $item =~ /\|([^|;{}]*)\|/g, $item =~ /[{,]([^{},;]*)=>/g) {
        $bound{$_} = 1 for $pattern =~ /(?<![\w.:])($local)\b(?!\(|::|!)/g;
    }
    my @words = $item =~ /$tokens/g;
    my @others = map {
        my ($before, $word, $after) = ($_ ? $words[$_ - 1] : '', $words[$_], $words[$_ + 1] // '');
        $bound{$word} && $before !~ /^(\.|::)$/ && $after !~ /^(::?|!)$/ ? "${word}_renamed" : $word;
    } 0 .. $#words;
    return join "\n ", @others;
}

# Returns code without names' disguise, comments and white space.
sub essence {
    my ($code) = @_;
    $code =~ s{//[^\n]*}{}g;
    $code =~ s/_renamed//g;
    $code =~ s/\s+//g;
    return $code;
}

# Returns the mutated item, or else what it must have exactly once.
sub mutate {
    my ($item, $edits) = @_;
    for (@$edits) { replace(\$item, @$_) or return (undef, $_->[0]) }
    return $item;
}

my (@mutations, $current);
@ARGV = @arguments;
while (<>) {
    chomp;
    next if /^(#|$)/;
    if (/^(\S+) \| (\S+) \| (\S+) \| (\S+)$/) {
        $current = {at => "$ARGV:$.", name => $1, check => $2, file => $3, item => $4, claim => '', edits => []};
        push @mutations, $current;
    } elsif (/^  (-{1,2}) (.+)$/) {
        push @{$current->{edits}}, [$2, '', $1 eq '--'];
    } elsif (/^  \+ (.+)$/) {
        $current->{edits}[-1][1] = $1;
    } elsif (/^  (\w.*)$/ && !$current->{claim}) {
        $current->{claim} = $1;
    } else {
        die "$ARGV:$.: what is this? $_\n";
    }
} continue {
    close ARGV if eof;
}

my $failed = 0;
for (@mutations) {
    my ($name, $file) = ($_->{name}, $_->{file});
    if ($command eq 'names') {
        print "$name $_->{check} $file\n";
        next;
    }
    next if defined $only && $only ne $name;
    my $complain = sub { print "$_->{at}: $name: @_\n"; $failed = 1 };
    open my $handle, '<', $file or do { $complain->("NO FILE $file"); next };
    my $source = do { local $/; <$handle> };
    my ($start, $length) = find_item($source, $_->{item});
    if (!defined $start) { $complain->("NOT ONE FUNCTION $_->{item} IN $file"); next }
    my $item = substr $source, $start, $length;
    my ($mutated, $missing) = mutate($item, $_->{edits});
    if (!defined $mutated) {
        $complain->("NOT EXACTLY ONCE IN $_->{item} OF $file: $missing");
    } elsif ($command eq 'apply') {
        substr($source, $start, $length) = $mutated;
        print $source;
    } else {
        my ($disguised) = mutate(disguise($item), $_->{edits});
        $complain->('NO CLAIM') unless $_->{claim};
        $complain->('CHANGES NOTHING') if essence($mutated) eq essence($item);
        $complain->('DEPENDS ON NAMES OF LOCALS OR ON LINES') if !defined $disguised || essence($disguised) ne essence($mutated);
    }
}
exit $failed;
