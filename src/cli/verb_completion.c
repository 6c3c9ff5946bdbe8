#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* The words of a choice, divided by spaces. */
static void put_choice(const char *choice, size_t len)
{
    const char *word;
    size_t word_len;
    while (choice_next(&choice, &len, &word, &word_len))
        printf("%.*s ", (int)word_len, word);
}

static void put_options(const struct option *options)
{
    for (; options != NULL && options->name != NULL; options++)
        printf("%s ", options->name);
}

/* ---- bash ---- */

static void put_bash_values(const struct option *options)
{
    for (; options != NULL && options->name != NULL; options++) {
        if (options->value == NULL)
            continue;
        printf("        %s) ", options->name);
        if (is_choice(options->value)) {
            fputs("values='", stdout);
            put_choice(options->value, strlen(options->value));
            puts("' ;;");
        } else {
            puts("return ;;");
        }
    }
}

static void put_bash_verb(const struct verb *verb)
{
    const char *rest = verb->arguments;
    struct slot slot;
    printf("    %s)\n        case $previous in\n", verb->name);
    put_bash_values(verb->options);
    put_bash_values(cli_common_options(verb));
    fputs("        esac\n        options='", stdout);
    put_options(verb->options);
    put_options(cli_common_options(verb));
    fputs("'\n        words='", stdout);
    if (strcmp(verb->name, "help") == 0)
        fputs("$verbs", stdout);
    else if (slot_next(&rest, &slot) && slot.choice)
        put_choice(slot.name, slot.len);
    puts("' ;;");
}

static void put_bash(void)
{
    puts("# bash completion for pawl\n"
         "_pawl() {\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local verb=${COMP_WORDS[1]} options='' words='' values='' verbs");
    fputs("    verbs='", stdout);
    for (size_t i = 0; i < cli_verb_count; i++)
        if (cli_verbs[i].verb != NULL)
            printf("%s ", cli_verbs[i].verb->name);
    puts(
        "'\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$current\")\n"
        "        return\n"
        "    fi\n"
        "    case $verb in");
    for (size_t i = 0; i < cli_verb_count; i++)
        if (cli_verbs[i].verb != NULL)
            put_bash_verb(cli_verbs[i].verb);
    puts("    *) return ;;\n"
         "    esac\n"
         "    if [ -n \"$values\" ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$current\")\n"
         "    elif [ \"${current#-}\" != \"$current\" ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
         "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
         "        [ \"$words\" != \"\\$verbs\" ] || words=$verbs\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "    fi\n"
         "}\n"
         "complete -o default -F _pawl pawl");
}

/* ---- zsh ---- */

/* Text between single quotes, in which [ ] and : mean something to _arguments. */
static void put_zsh_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text) != NULL)
            printf("\\%c", *text);
        else
            fputc(*text, stdout);
}

static void put_zsh_options(const struct option *options)
{
    for (; options != NULL && options->name != NULL; options++) {
        printf("            '%s%s%s[", options->times != OPTION_ONCE ? "*" : "", options->name,
               options->value != NULL ? "=" : "");
        put_zsh_text(options->text);
        fputs("]", stdout);
        if (options->value != NULL) {
            fputs(":", stdout);
            put_zsh_text(is_choice(options->value) ? "one of" : options->value);
            fputs(":", stdout);
            if (is_choice(options->value)) {
                fputs("(", stdout);
                put_choice(options->value, strlen(options->value));
                fputs(")", stdout);
            }
        }
        puts("' \\");
    }
}

static void put_zsh_verb(const struct verb *verb)
{
    const char *rest = verb->arguments;
    struct slot slot;
    printf("        %s)\n            _arguments \\\n", verb->name);
    put_zsh_options(verb->options);
    put_zsh_options(cli_common_options(verb));
    if (strcmp(verb->name, "help") == 0) {
        puts("            '1:verb:(${verbs%%:*})' ;;");
    } else if (slot_next(&rest, &slot) && slot.choice) {
        fputs("            '1:what:(", stdout);
        put_choice(slot.name, slot.len);
        puts(")' '*: :_files' ;;");
    } else {
        puts("            '*: :_files' ;;");
    }
}

static void put_zsh(void)
{
    puts("#compdef pawl\n"
         "_pawl() {\n"
         "    local -a verbs\n"
         "    verbs=(");
    for (size_t i = 0; i < cli_verb_count; i++) {
        if (cli_verbs[i].verb == NULL)
            continue;
        printf("        '%s:", cli_verbs[i].verb->name);
        put_zsh_text(cli_verbs[i].verb->summary);
        puts("'");
    }
    puts("    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe verb verbs\n"
         "        return\n"
         "    fi\n"
         "    local verb=$words[2]\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $verb in");
    for (size_t i = 0; i < cli_verb_count; i++)
        if (cli_verbs[i].verb != NULL)
            put_zsh_verb(cli_verbs[i].verb);
    puts("    esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _pawl ]; then\n"
         "    _pawl \"$@\"\n"
         "else\n"
         "    compdef _pawl pawl\n"
         "fi");
}

static enum cli_exit run(const struct args *args)
{
    if (strcmp(cli_word(args, 0), "bash") == 0)
        put_bash();
    else
        put_zsh();
    return CLI_DONE;
}

const struct verb verb_completion = {
    .name = "completion",
    .summary = "print a shell completion script",
    .arguments = "bash|zsh",
    .about = "Prints a shell completion script.\n",
    .examples = "  pawl completion bash >/etc/bash_completion.d/pawl\n"
                "  source <(pawl completion zsh)\n",
    .run = run,
};
